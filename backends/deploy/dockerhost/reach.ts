/**
 * Whether this server reaches containers by their addresses. On another host than the daemon's these lead nowhere,
 * or to workloads of somebody else: every Docker daemon gives out the same ones.
 */
import { SvcError } from "../../../lib/base/errors.ts";
import type { Daemon, DockerClient } from "../../../lib/docker/client.ts";
import type { Inspected } from "../shared/engine_api/inspect.ts";

/** A daemon that was lost is asked again: it is another object then. */
const rootless = new WeakMap<Daemon, Promise<boolean>>();

async function isRootless(client: DockerClient, attempted: string): Promise<boolean> {
  const daemon = await client.daemon();
  const asked = rootless.get(daemon) ??
    client.json<{ SecurityOptions?: string[] | null }>({ path: "/info", attempted })
      .then(({ SecurityOptions }) => SecurityOptions?.includes("name=rootless") ?? false);
  rootless.set(daemon, asked);
  asked.catch(() => rootless.delete(daemon));
  return await asked;
}

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
  throw new SvcError("unsupported", `${attempted}: its containers' addresses ${why}`, {
    help:
      `publish the port (ports in the spec), or ${instead}; or set SVC_DOCKER_REMOTE, for a companion ` +
      "that reaches it",
  });
}
