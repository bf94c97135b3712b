/**
 * Whether this server reaches containers by their addresses. On another host than the daemon's these lead nowhere,
 * or to workloads of somebody else: every Docker daemon gives out the same ones.
 */
import type { DockerClient } from "../../../lib/docker/client.ts";
import { isRootless } from "../../../lib/docker/rootless.ts";
import type { Inspected } from "../shared/engine_api/inspect.ts";
import { unreachable } from "../shared/engine_api/unreachable.ts";

/** Docker names the link of a network after its id, which is random: who has the link is on the daemon's host. */
function isHere(containers: readonly Inspected[]): boolean {
  const links = new Set(Deno.networkInterfaces().map(({ name }) => name));
  return containers.some(({ NetworkSettings: { Networks } }) =>
    Object.values(Networks ?? {}).some(({ NetworkID = "" }) =>
      links.has(`br-${NetworkID.slice(0, 12)}`)
    )
  );
}

/**
 * True where this server sees the routes of the daemon's host: a link of one of the daemon's networks is here. A
 * server in a container has routes of its own.
 */
export async function seesRoutes(client: DockerClient, attempted: string): Promise<boolean> {
  const links = new Set(Deno.networkInterfaces().map(({ name }) => name));
  const networks = await client.json<{ Id: string; Options?: Record<string, string> | null }[]>({
    path: "/networks",
    attempted,
  });
  return networks.some(({ Id, Options }) =>
    links.has(`br-${Id.slice(0, 12)}`) ||
    // The default bridge has the same name on every host.
    client.local && links.has(Options?.["com.docker.network.bridge.name"] ?? "")
  );
}

/** Throws `unsupported`, at once, where a connection would not come to these containers. */
export async function requireReachable(
  client: DockerClient,
  attempted: string,
  containers: readonly Inspected[],
): Promise<void> {
  if (containers.length === 0) return; // that nothing runs is the better reason
  const far = !client.local && !isHere(containers);
  if (!far && !(client.local && await isRootless(client, attempted))) return;
  const [why, instead] = far
    ? [
      `are on the host of ${client.words.address}, not here`,
      "run the server on the daemon's host",
    ]
    : ["lead nowhere from the host of a rootless daemon", "use the daemon of root"];
  throw unreachable(attempted, { why, instead, variable: "SVC_DOCKER_REMOTE" });
}
