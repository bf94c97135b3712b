/** What a running container uses: the counters of its cgroup and of its own network. */
import { Cgroups, textOf } from "./cgroups.ts";
import type { ContainerUsage, ProcessIdentity } from "./engine.ts";

/** The files of a cgroup, by controller. */
export type CgroupFiles = Pick<Cgroups, "unified" | "read">;

/** Version 1 writes "no limit" as the largest number of pages. */
const NO_LIMIT = 2 ** 62;

const number = (text: string | undefined): number => Number(text?.trim() ?? 0) || 0;

/** The value of a line "NAME VALUE". */
function field(text: string | undefined, name: string): number {
  return number(new RegExp(`^${name} (\\d+)$`, "m").exec(text ?? "")?.[1]);
}

/** The sum of all numbers that follow the word, over all devices. */
function sum(text: string | undefined, pattern: RegExp): number {
  return [...(text ?? "").matchAll(pattern)].reduce((all, [, value]) => all + Number(value), 0);
}

async function memoryOf(
  cgroups: CgroupFiles,
): Promise<Pick<ContainerUsage, "memory" | "memoryLimit">> {
  const [used, limited, cache] = cgroups.unified
    ? ["memory.current", "memory.max", "inactive_file"]
    : ["memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"];
  const [usage, limit, stat] = await Promise.all(
    [used, limited, "memory.stat"].map((file) => cgroups.read("memory", file)),
  );
  const most = limit?.trim() === "max" ? Infinity : number(limit);
  return {
    memory: Math.max(0, number(usage) - field(stat, cache)),
    ...(most > 0 && most < NO_LIMIT && { memoryLimit: most }),
  };
}

async function blocksOf(
  cgroups: CgroupFiles,
): Promise<Pick<ContainerUsage, "blockRead" | "blockWritten">> {
  if (cgroups.unified) {
    const text = await cgroups.read("blkio", "io.stat");
    return { blockRead: sum(text, /\brbytes=(\d+)/g), blockWritten: sum(text, /\bwbytes=(\d+)/g) };
  }
  const text = await cgroups.read("blkio", "blkio.throttle.io_service_bytes_recursive");
  return { blockRead: sum(text, / Read (\d+)$/gm), blockWritten: sum(text, / Write (\d+)$/gm) };
}

async function cpuOf(cgroups: CgroupFiles): Promise<number> {
  if (!cgroups.unified) return number(await cgroups.read("cpuacct", "cpuacct.usage"));
  return field(await cgroups.read("cpuacct", "cpu.stat"), "usage_usec") * 1000;
}

/** All counters but the number of processes. */
export async function usageOf(cgroups: CgroupFiles): Promise<Omit<ContainerUsage, "processes">> {
  const [cpu, memory, blocks] = await Promise.all([
    cpuOf(cgroups),
    memoryOf(cgroups),
    blocksOf(cgroups),
  ]);
  return { cpu, ...memory, ...blocks };
}

/** Undefined where the process has gone. */
export async function cgroupUsage(process: ProcessIdentity): Promise<ContainerUsage | undefined> {
  const cgroups = await Cgroups.of(process);
  if (!cgroups) return undefined;
  const [usage, processes] = await Promise.all([usageOf(cgroups), cgroups.processes()]);
  return { ...usage, processes: processes.length };
}

/** Bytes over all networks of a process's namespace. Undefined where the process has gone. */
export async function networkUsage(
  process: ProcessIdentity,
): Promise<{ received: number; sent: number } | undefined> {
  const text = await textOf(process, "net/dev");
  if (text === undefined) return undefined;
  const total = { received: 0, sent: 0 };
  for (const line of text.split("\n")) {
    const [name, values] = line.split(":");
    if (values === undefined || name.trim() === "lo") continue;
    // Eight counters of what came in, then those of what went out.
    const counters = values.trim().split(/\s+/).map(Number);
    total.received += counters[0];
    total.sent += counters[8];
  }
  return total;
}
