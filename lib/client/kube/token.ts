/** Tokens of a ServiceAccount through the TokenRequest API (SPEC.md, table KubeAuth). */
import type { KubeAuth } from "../profile/types.ts";
import { openKubeApi } from "./api.ts";
import type { Environment } from "./kubeconfig.ts";

interface TokenRequest {
  status: { token: string; expirationTimestamp: string };
}

export interface KubeToken {
  token: string;
  expiresAt: Date;
}

/** Throws what the API server answers, most often `denied`. */
export async function mintKubeToken(
  settings: KubeAuth,
  env: Environment,
  signal?: AbortSignal,
): Promise<KubeToken> {
  await using api = await openKubeApi(settings["kube-context"], env, signal);
  const namespace = settings.namespace ?? api.namespace;
  const { audience, "expiration-seconds": seconds } = settings;
  const { status } = await api.json<TokenRequest>(
    "POST",
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/serviceaccounts/${
      encodeURIComponent(settings["service-account"]!)
    }/token`,
    {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: {
        ...(audience && { audiences: [audience] }),
        ...(seconds && { expirationSeconds: seconds }),
      },
    },
  );
  return { token: status.token, expiresAt: new Date(status.expirationTimestamp) };
}
