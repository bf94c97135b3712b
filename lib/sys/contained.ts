/** What a process can tell of the container that it runs in, without asking an engine. */
import { exists } from "../base/fs.ts";
import { type MountEntry, mounts } from "./mountinfo.ts";

/** Files that engines mount into every application container, from folders that carry the container's id. */
const ENGINE_FILES = new Set(["/etc/hostname", "/etc/hosts"]);

/** A sysctl that the kernel shows in the machine's first network namespace only. */
const FIRST_NETWORK = "/proc/sys/net/core/netdev_budget";

/**
 * True in an application container, of whatever engine. False in a system container (LXC), which is a machine to
 * its users. Marks such as /.dockerenv tell nothing: machines are made from images that have them.
 */
export async function inContainer(
  table: () => Promise<readonly Pick<MountEntry, "target">[]> = mounts,
): Promise<boolean> {
  if (Deno.build.os !== "linux") return false;
  return (await table()).some(({ target }) => ENGINE_FILES.has(target));
}

/** True where this process is in the network namespace that the machine began with. */
export async function inFirstNetwork(): Promise<boolean> {
  return Deno.build.os !== "linux" || await exists(FIRST_NETWORK);
}

/**
 * Ids that this process's container may have, the surest first: by the sources of its files, then by its control
 * group. An engine tells whether it has such a container.
 */
export function containerIds(table: readonly MountEntry[], cgroup: string): string[] {
  const files = table.filter(({ target }) => ENGINE_FILES.has(target)).map(({ root }) => root);
  const groups = cgroup.split("\n").map((line) => line.slice(line.lastIndexOf(":") + 1));
  const found = [...files, ...groups].flatMap((path) =>
    // docker-ID.scope, libpod-ID.scope, or the id as a folder.
    path.split(/[/.-]/).filter((part) => /^[0-9a-f]{64}$/.test(part))
  );
  return [...new Set(found)];
}

/** {@linkcode containerIds} of this process; none outside containers. */
export async function ownContainerIds(): Promise<string[]> {
  if (!await inContainer()) return [];
  const cgroup = await Deno.readTextFile("/proc/self/cgroup").catch(() => "");
  return containerIds(await mounts(), cgroup);
}
