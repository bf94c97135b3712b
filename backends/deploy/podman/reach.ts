/**
 * Whether this server reaches containers by their addresses. Those of a rootless podman lead nowhere; those of one
 * on another host lead nowhere, or to workloads of somebody else: every podman gives out the same ones.
 */
import { sleep } from "../../../lib/base/sleep.ts";
import type { DockerClient } from "../../../lib/docker/client.ts";
import { isRootless } from "../../../lib/docker/rootless.ts";
import { dialUdp } from "../../../lib/wire/dial.ts";
import type { Inspected } from "../shared/engine_api/inspect.ts";
import { unreachable } from "../shared/engine_api/unreachable.ts";

/** The port of the service "discard". */
const DISCARD = 9;
/** Milliseconds that a neighbour has to answer. */
const ANSWER_MS = 1000;
const LOOK_MS = 20;

/** The hardware address of this host's neighbour by its IPv4 address, as far as the kernel knows it. */
function neighbour(address: string): string | undefined {
  // This thread's network: it may have entered another one than the process was started in.
  const table = Deno.readTextFileSync("/proc/thread-self/net/arp");
  const row = table.split("\n").map((line) => line.split(/\s+/)).find(([ip]) => ip === address);
  return row?.[3];
}

/** Podman draws hardware addresses by chance: a neighbour that has the container's one is the container. */
async function isHere({ NetworkSettings }: Inspected, signal?: AbortSignal): Promise<boolean> {
  const networks = Object.values(NetworkSettings.Networks ?? {});
  for (const { IPAddress, MacAddress } of networks) {
    if (!IPAddress || !MacAddress) continue;
    // The kernel looks for the neighbour in order to send to it.
    const socket = await dialUdp(IPAddress, DISCARD).catch(() => undefined);
    if (!socket) continue;
    try {
      await socket.write(new Uint8Array(1));
      for (const until = performance.now() + ANSWER_MS; performance.now() < until;) {
        if (neighbour(IPAddress)?.toLowerCase() === MacAddress.toLowerCase()) return true;
        await sleep(LOOK_MS, signal);
      }
    } finally {
      socket.reset();
    }
  }
  return false;
}

const variable = "SVC_PODMAN_REMOTE";

/** Throws `unsupported`, at once, where a connection would not come to these containers. */
export async function requireReachable(
  client: DockerClient,
  attempted: string,
  containers: readonly Inspected[],
  signal?: AbortSignal,
): Promise<void> {
  if (containers.length === 0) return; // that nothing runs is the better reason
  if (await isRootless(client, attempted)) {
    const why = "lead nowhere from the host of a rootless podman";
    throw unreachable(attempted, { why, instead: "use podman as root", variable });
  }
  if (client.local) return;
  for (const container of containers) if (await isHere(container, signal)) return;
  const why = `are on the host of ${client.words.address}, not here`;
  throw unreachable(attempted, { why, instead: "run the server on podman's host", variable });
}
