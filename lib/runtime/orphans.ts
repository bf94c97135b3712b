/**
 * Ends containers that a server left behind in a user namespace which its successor is not in: the
 * successor's runtime may not send them a signal, but the user who made that namespace may.
 */
import { join } from "node:path";
import { hasCode } from "../sys/errno.ts";

interface Init {
  pid: number;
  /** Clock ticks since boot: a process id alone may have been given to somebody else since. */
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
 * Kills the first process of every container in a runtime's `--root`; the kernel ends the others of its
 * process namespace with it. Returns how many there were. Only for a root whose server is dead.
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
