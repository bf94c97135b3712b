/** Lists the processes of a running container as `ps -ef` does, without a program in the container. */
import type { ProcessList } from "../caps.ts";
import { bootTimeOf, LONGEST_COMMAND, processRow, TITLES } from "../process_rows.ts";
import { Cgroups, kernelText } from "./cgroups.ts";
import type { ProcessIdentity } from "./engine.ts";

async function commandOf(pid: number): Promise<Uint8Array | undefined> {
  try {
    using file = await Deno.open(`/proc/${pid}/cmdline`);
    const bytes = new Uint8Array(LONGEST_COMMAND);
    return bytes.subarray(0, await file.read(bytes) ?? 0);
  } catch {
    return undefined; // it has ended
  }
}

/** A process's row; undefined where it has gone. */
async function row(pid: number, boot: number): Promise<string[] | undefined> {
  const [stat, status] = await Promise.all(
    ["stat", "status"].map((file) => kernelText(`/proc/${pid}/${file}`)),
  );
  if (stat === undefined || status === undefined) return undefined;
  return processRow(pid, { stat, status, cmdline: await commandOf(pid) }, boot);
}

/** Undefined where the container's process has gone. */
export async function processesOf(
  instance: string,
  process: ProcessIdentity,
): Promise<ProcessList | undefined> {
  const [cgroups, boot] = await Promise.all([
    Cgroups.of(process),
    kernelText("/proc/stat").then(bootTimeOf),
  ]);
  if (!cgroups) return undefined;
  const pids = (await cgroups.processes()).sort((a, b) => a - b);
  const rows = await Promise.all(pids.map((pid) => row(pid, boot)));
  return { instance, titles: TITLES, processes: rows.filter((row) => row !== undefined) };
}
