/**
 * CNI plugins that a server was running when it was killed. They go on for a moment, and what they make then (an
 * address, an interface) nobody would remove who looked before.
 */
import { sleep } from "../base/sleep.ts";

/** Milliseconds to wait for them, and between two looks. */
const PATIENCE_MS = 60_000;
const LOOK_MS = 50;

/** True for a process of this user's, outside of any container, that is a plugin at work on one of the namespaces. */
async function isAtWork(pid: string, netns: readonly string[], own: string): Promise<boolean> {
  try {
    // First that it is in no container: what a workload's process is doing may hold up who reads its environment.
    if (await Deno.readLink(`/proc/${pid}/ns/mnt`) !== own) return false;
    if ((await Deno.stat(`/proc/${pid}`)).uid !== Deno.uid()) return false;
    // Our own: the kernel's file of a process.
    const environment = `\0${await Deno.readTextFile(`/proc/${pid}/environ`)}`;
    return netns.some((folder) => environment.includes(`\0CNI_NETNS=${folder}/`));
  } catch {
    return false; // it has ended, or is another user's
  }
}

async function atWork(netns: readonly string[]): Promise<string[]> {
  const own = await Deno.readLink("/proc/self/ns/mnt");
  const found: string[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (/^\d+$/.test(name) && await isAtWork(name, netns, own)) found.push(name);
  }
  return found;
}

/**
 * Resolves once no plugin is at work on namespaces whose files are in the folders; called before a server has run
 * any. Resolves to the processes that have not ended within a minute.
 */
export async function pluginsEnded(
  netns: readonly string[],
  patienceMs = PATIENCE_MS,
): Promise<string[]> {
  for (const until = performance.now() + patienceMs;;) {
    const found = await atWork(netns);
    if (found.length === 0 || performance.now() > until) return found;
    await sleep(LOOK_MS);
  }
}
