/** The part of `svc deploy --session` in a workload's egress: this machine dials for the route client. */
import { type EgressSpec, isRelayed, routesOf } from "../api/egress.ts";
import type { SpecBody } from "../client/deployments.ts";
import { callersProxies } from "../egress/variables.ts";
import type { SessionWatcher } from "../client/deploy_session.ts";

/** Streams that the server may open for a spec of this caller's; none where no route leads here. */
export async function egressTakes(
  body: SpecBody,
  env: Readonly<Record<string, string | undefined>>,
): Promise<NonNullable<SessionWatcher["takes"]>> {
  const egress = "spec" in body ? (body.spec as { egress?: EgressSpec }).egress : undefined;
  if (!egress || !isRelayed(egress) || !routesOf(egress).includes("client")) return {};
  const [{ loadEgressPolicy }, { callersDial }, { serveEgressStream }] = await Promise.all([
    import("../egress/load.ts"),
    import("../egress/caller.ts"),
    import("../egress/stream.ts"),
  ]);
  const policy = await loadEgressPolicy(egress);
  const dial = callersDial({ policy, proxies: callersProxies(env) });
  return { egress: (stream, fields) => serveEgressStream(stream, fields, dial) };
}
