/**
 * CNI plugins that a server was running when it was killed. They go on for a moment, and what they make then (an
 * address, an interface) nobody would remove who looked before.
 */
import type { Logger } from "../base/log.ts";
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
 * any. Those that have not ended within `patienceMs` (default: a minute) are logged.
 */
export async function pluginsEnded(
  netns: readonly string[],
  log: Logger,
  patienceMs = PATIENCE_MS,
): Promise<void> {
  for (const until = performance.now() + patienceMs;;) {
    const plugins = await atWork(netns);
    if (plugins.length === 0) return;
    if (performance.now() > until) {
      return log.warn("CNI plugins of an earlier server do not end", { plugins });
    }
    await sleep(LOOK_MS);
  }
}
