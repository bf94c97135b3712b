/**
 * Ends containers that a server left in a user namespace which the next server does not enter. The next
 * server's runtime may not signal them, but the user who made that namespace may.
 */
import { join } from "node:path";
import { hasCode } from "../sys/errno.ts";

interface Init {
  pid: number;
  /** Clock ticks since boot: the process id alone may belong to another process by now. */
  started: string;
}

/** What runc and crun note about a container's first process; undefined where it cannot be read. */
async function initOf(folder: string): Promise<Init | undefined> {
  for (const file of ["state.json", "status"]) {
    try {
      // Our own: the runtime's state.
      const state = JSON.parse(await Deno.readTextFile(join(folder, file)));
      const pid = state.init_process_pid ?? state.pid;
      const started = state.init_process_start ?? state["process-start-time"];
      if (Number.isInteger(pid) && pid > 1 && started) return { pid, started: String(started) };
    } catch {
      // not there, or cut off: the next one
    }
  }
  return undefined;
}

async function isRunning({ pid, started }: Init): Promise<boolean> {
  try {
    const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
    // The name in parentheses may hold anything; starttime is the 20th field after it (proc_pid_stat(5)).
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] === started;
  } catch {
    return false;
  }
}

/**
 * Kills the first process of every container below a runtime's `--root`; the kernel then ends the others in its
 * process namespace. Returns the number of containers. Only for a root whose server is dead.
 */
export async function killContainers(root: string): Promise<number> {
  let killed = 0;
  let names: string[];
  try {
    names = [...Deno.readDirSync(root)].map((entry) => entry.name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
  for (const name of names) {
    const init = await initOf(join(root, name));
    if (!init || !await isRunning(init)) continue;
    try {
      Deno.kill(init.pid, "SIGKILL");
      killed++;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound) && !hasCode(error, "ESRCH")) throw error;
    }
  }
  return killed;
}
