/** Ingress of `svc deploy --session`, by the profile's `conduit.ingress`. */
import type { Client } from "../client/client.ts";
import type { PreparedIngress } from "../client/conduit/ingress.ts";
import type { Target } from "../client/resolve.ts";
import type { Invocation } from "./command.ts";

export interface SessionIngressOptions {
  target: Target;
  client: Client;
  warn: (text: string) => void;
  /** Aborting it ends what was opened. */
  signal: AbortSignal;
}

/**
 * Runs before anything is deployed, so that errors in the profile's files or the cluster are reported first.
 */
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
    controller: async () => (await client.json("GET /info")).ingress?.controller,
    warn,
    signal: AbortSignal.any([signal, io.signal]),
  });
}
