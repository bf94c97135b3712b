/** Lists the processes of a running container as `ps -ef` does, without a program in the container. */
import type { ProcessList } from "../caps.ts";
import { Cgroups, kernelText } from "./cgroups.ts";
import type { ProcessIdentity } from "./engine.ts";

export const TITLES = ["UID", "PID", "PPID", "STIME", "TTY", "TIME", "CMD"];

/** Most bytes of a command line that are shown. */
const LONGEST_COMMAND = 4096;
/** Clock ticks of a second (USER_HZ), the same on all architectures that svc runs on. */
const TICKS = 100;

async function commandOf(pid: number): Promise<string | undefined> {
  try {
    using file = await Deno.open(`/proc/${pid}/cmdline`);
    const bytes = new Uint8Array(LONGEST_COMMAND);
    const length = await file.read(bytes) ?? 0;
    return new TextDecoder().decode(bytes.subarray(0, length)).replaceAll("\0", " ").trimEnd();
  } catch {
    return undefined; // it has ended
  }
}

/** As tty_nr of proc(5) has it. */
function terminal(device: number): string {
  const major = device >> 8 & 0xfff;
  const minor = device & 0xff | device >> 12 & 0xfff00;
  if (device === 0) return "?";
  return major >= 136 && major <= 143 ? `pts/${(major - 136) * 256 + minor}` : `${major}:${minor}`;
}

function clock(seconds: number): string {
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  return `${two(seconds / 3600)}:${two(seconds / 60 % 60)}:${two(seconds % 60)}`;
}

/** Seconds since 1970 of the boot. */
async function bootTime(): Promise<number> {
  return Number(/^btime (\d+)$/m.exec(await kernelText("/proc/stat") ?? "")?.[1] ?? 0);
}

/** A process's row; undefined where it has gone. */
async function row(pid: number, boot: number): Promise<string[] | undefined> {
  const [stat, status] = await Promise.all(
    ["stat", "status"].map((file) => kernelText(`/proc/${pid}/${file}`)),
  );
  if (stat === undefined || status === undefined) return undefined;
  // The name, in parentheses, may contain anything.
  const name = stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")"));
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [uid = "?"] = /^Uid:\s+(\d+)/m.exec(status)?.slice(1) ?? [];
  const started = new Date((boot + Number(fields[19]) / TICKS) * 1000);
  return [
    uid,
    String(pid),
    fields[1],
    started.toISOString().slice(0, 16),
    terminal(Number(fields[4])),
    clock((Number(fields[11]) + Number(fields[12])) / TICKS),
    await commandOf(pid) || `[${name}]`,
  ];
}

/** Undefined where the container's process has gone. */
export async function processesOf(
  instance: string,
  process: ProcessIdentity,
): Promise<ProcessList | undefined> {
  const [cgroups, boot] = await Promise.all([Cgroups.of(process), bootTime()]);
  if (!cgroups) return undefined;
  const pids = (await cgroups.processes()).sort((a, b) => a - b);
  const rows = await Promise.all(pids.map((pid) => row(pid, boot)));
  return { instance, titles: TITLES, processes: rows.filter((row) => row !== undefined) };
}
