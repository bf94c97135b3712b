/** Ingress of `svc deploy --session`, as `conduit.ingress` of the profile has it. */
import type { ServerInfo } from "../api/info.ts";
import type { Client } from "../client/client.ts";
import type { PreparedIngress } from "../client/conduit/ingress.ts";
import type { Target } from "../client/resolve.ts";
import type { Invocation } from "./command.ts";

export interface SessionIngressOptions {
  target: Target;
  client: Client;
  warn: (text: string) => void;
  /** Ends what is open. */
  signal: AbortSignal;
}

/** Before anything is deployed: what is wrong with the profile's files or the cluster is told then. */
export async function prepareSessionIngress(
  { io, env }: Pick<Invocation, "io" | "env">,
  { target, client, warn, signal }: SessionIngressOptions,
): Promise<PreparedIngress | undefined> {
  const settings = target.settings.conduit?.ingress;
  if (!settings?.mode || settings.mode === "off") return undefined;
  const { prepareIngress } = await import("../client/conduit/ingress.ts");
  const { transport, profilePath } = target;
  return await prepareIngress({
    settings,
    profilePath,
    ...(transport.kind === "kube" && { cluster: transport.settings }),
    env,
    controller: async () => (await client.json<ServerInfo>("GET", "/info")).ingress?.controller,
    warn,
    signal: AbortSignal.any([signal, io.signal]),
  });
}
