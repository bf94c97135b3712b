/** Identifies processes by pid and start time: a pid alone may belong to another process by now. */
import type { ProcessIdentity } from "./engine.ts";

let bootId: string | undefined;

async function currentBoot(): Promise<string> {
  bootId ??= (await Deno.readTextFile("/proc/sys/kernel/random/boot_id")).trim();
  return bootId;
}

/** State letter and start time; undefined where there is no such process. */
async function statOf(pid: number): Promise<{ state: string; startTime: string } | undefined> {
  const text = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => undefined);
  // The name, in parentheses, may contain blanks: fields are counted after it.
  const fields = text?.slice(text.lastIndexOf(")") + 2).split(" ");
  return fields && { state: fields[0], startTime: fields[19] };
}

/** Undefined where the process has already gone. */
export async function identify(pid: number): Promise<ProcessIdentity | undefined> {
  const stat = await statOf(pid);
  return stat && { pid, startTime: stat.startTime, bootId: await currentBoot() };
}

/** True while that very process runs; false for a zombie. */
export async function isAlive(identity: ProcessIdentity | undefined): Promise<boolean> {
  if (!identity || identity.bootId !== await currentBoot()) return false;
  const stat = await statOf(identity.pid);
  return stat !== undefined && stat.startTime === identity.startTime && stat.state !== "Z" &&
    stat.state !== "X";
}
