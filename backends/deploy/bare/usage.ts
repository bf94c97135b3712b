/** What a container uses as its runtime tells it, for runtimes whose containers are no processes of the host. */
import { basename } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { run } from "../../../lib/base/process.ts";
import type { ContainerUsage } from "../../../lib/deploy/host/engine.ts";
import type { Runtime } from "../../../lib/runtime/runtime.ts";

/** Values of SVC_BARE_STATS_SOURCE. */
export type StatsSource = "runtime" | "cgroup";

/** The source for a runtime of that name: a sandbox's processes are not in the host's cgroups one by one. */
export const statsSourceOf = (runtime: string): StatsSource =>
  /^(runsc|gvisor)/.test(basename(runtime)) ? "runtime" : "cgroup";

/** `events --stats`, as runc and runsc print it. */
interface StatsEvent {
  data?: {
    cpu?: { usage?: { total?: number } };
    memory?: { usage?: { usage?: number; limit?: number }; raw?: Record<string, number> };
    pids?: { current?: number };
    blkio?: { ioServiceBytesRecursive?: { op?: string; value?: number }[] };
  };
}

/** Runtimes write "no limit" as a number near 2 ** 63 or 2 ** 64. */
const NO_LIMIT = 2 ** 62;

function usageOf({ data = {} }: StatsEvent): ContainerUsage {
  const { cpu, memory, pids, blkio } = data;
  const { usage = 0, limit = 0 } = memory?.usage ?? {};
  const cache = memory?.raw?.total_inactive_file ?? memory?.raw?.inactive_file ?? 0;
  const bytes = (kind: string) =>
    (blkio?.ioServiceBytesRecursive ?? []).filter(({ op }) => op?.toLowerCase() === kind)
      .reduce((sum, { value = 0 }) => sum + value, 0);
  return {
    cpu: cpu?.usage?.total ?? 0,
    memory: Math.max(0, usage - cache),
    ...(limit > 0 && limit < NO_LIMIT && { memoryLimit: limit }),
    processes: pids?.current ?? 0,
    blockRead: bytes("read"),
    blockWritten: bytes("write"),
  };
}

/** Throws `upstream_failed` where the runtime does not tell. */
export async function runtimeUsage(runtime: Runtime, key: string): Promise<ContainerUsage> {
  const [command, args] = runtime.command("events", "--stats", key);
  const { code, stdout, stderr } = await run(command, args);
  const attempted = `Cannot read what ${key} uses`;
  if (code !== 0) {
    const words = stderr.trim().split("\n").at(-1);
    throw new SvcError("upstream_failed", `${attempted}: ${runtime.binary} says: ${words}`, {
      help: "set SVC_BARE_STATS_SOURCE=cgroup, or use a runtime that has `events --stats`",
    });
  }
  try {
    return usageOf(JSON.parse(stdout));
  } catch (error) {
    throw new SvcError("upstream_failed", `${attempted}: ${runtime.binary} answers no JSON`, {
      cause: error,
      help: "set SVC_BARE_STATS_SOURCE=cgroup",
    });
  }
}
