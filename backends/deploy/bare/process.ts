/** Processes told apart for good: a pid alone may be another process's by now. */

export interface ProcessIdentity {
  pid: number;
  /** Clock ticks since boot, as /proc/PID/stat has it. */
  startTime: string;
  bootId: string;
}

let bootId: string | undefined;

async function currentBoot(): Promise<string> {
  bootId ??= (await Deno.readTextFile("/proc/sys/kernel/random/boot_id")).trim();
  return bootId;
}

/** State letter and start time; undefined where there is no such process. */
async function statOf(pid: number): Promise<{ state: string; startTime: string } | undefined> {
  const text = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => undefined);
  // The name, in parentheses, may hold blanks: fields are counted after its end.
  const fields = text?.slice(text.lastIndexOf(")") + 2).split(" ");
  return fields && { state: fields[0], startTime: fields[19] };
}

/** Undefined where the process is gone already. */
export async function identify(pid: number): Promise<ProcessIdentity | undefined> {
  const stat = await statOf(pid);
  return stat && { pid, startTime: stat.startTime, bootId: await currentBoot() };
}

/** True while exactly that process runs; a zombie does not. */
export async function isAlive(identity: ProcessIdentity | undefined): Promise<boolean> {
  if (!identity || identity.bootId !== await currentBoot()) return false;
  const stat = await statOf(identity.pid);
  return stat !== undefined && stat.startTime === identity.startTime && stat.state !== "Z" &&
    stat.state !== "X";
}
