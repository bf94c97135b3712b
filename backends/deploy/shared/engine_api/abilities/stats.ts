/** What instances use, as the engine counts it. */
import type { DeployCaps, InstanceStats } from "../../../../../lib/deploy/caps.ts";
import { sampling } from "../../../../../lib/deploy/sampling.ts";
import { daemonStatus } from "../../../../../lib/docker/errors.ts";
import { type AbilityParts, type RunningInstance, runningOnes } from "./parts.ts";

/** The used part of the answer to `/containers/ID/stats`. */
interface EngineStats {
  read?: string;
  cpu_stats: { cpu_usage: { total_usage: number } };
  memory_stats: { usage?: number; stats?: Record<string, number> | null };
  pids_stats: { current?: number };
  blkio_stats: { io_service_bytes_recursive?: { op: string; value: number }[] | null };
  networks?: Record<string, { rx_bytes: number; tx_bytes: number }>;
}

/** Bytes that the kernel can drop at once: as the docker client counts them, by both versions of cgroups. */
const droppable = (stats: Record<string, number>) =>
  stats.total_inactive_file ?? stats.inactive_file ?? 0;

function bytesOf({ blkio_stats }: EngineStats, wanted: string): number {
  const all = blkio_stats.io_service_bytes_recursive ?? [];
  return all.reduce((sum, { op, value }) => op.toLowerCase() === wanted ? sum + value : sum, 0);
}

function networkOf({ networks = {} }: EngineStats): Pick<InstanceStats, "received" | "sent"> {
  const all = Object.values(networks);
  return {
    received: all.reduce((sum, { rx_bytes }) => sum + rx_bytes, 0),
    sent: all.reduce((sum, { tx_bytes }) => sum + tx_bytes, 0),
  };
}

/** The ability, by how one instance is sampled: undefined where it has ended. */
export function statsBy(
  parts: Pick<AbilityParts, "require" | "watch">,
  sample: (
    name: string,
    one: RunningInstance,
    signal?: AbortSignal,
  ) => Promise<InstanceStats | undefined>,
): NonNullable<DeployCaps["stats"]> {
  return async function* (name, { instance, everyMs, signal } = {}) {
    const chosen = runningOnes(parts, name, instance);
    const again = () => {
      try {
        return runningOnes(parts, name, instance);
      } catch {
        return []; // it has ended
      }
    };
    try {
      yield* sampling({
        chosen,
        again,
        sample: (one) => sample(name, one, signal),
        everyMs,
        signal,
      });
    } catch (error) {
      if (!signal?.aborted) throw error;
    }
  };
}

export function statsAbility(parts: AbilityParts): NonNullable<DeployCaps["stats"]> {
  const { client, require } = parts;

  /** Undefined where the instance has ended. */
  async function sample(
    name: string,
    { id, container, found }: RunningInstance,
    signal?: AbortSignal,
  ): Promise<InstanceStats | undefined> {
    let stats: EngineStats;
    try {
      stats = await client.json<EngineStats>({
        path: `/containers/${container}/stats`,
        // Query values that are false are left out, and the engine's default is true.
        query: { stream: "false", "one-shot": true },
        attempted: `Cannot read the counters of ${id}`,
        signal,
      });
    } catch (error) {
      if ([404, 409].includes(daemonStatus(error) ?? 0)) return undefined;
      throw error;
    }
    const { read = "", cpu_stats, memory_stats: { usage, stats: memory }, pids_stats } = stats;
    // The engine's words for one that has ended: a time that never was, and no memory.
    if (read === "" || read.startsWith("0001-") || usage === undefined) return undefined;
    const { record: { spec, instances } } = require(name);
    const { amended } = instances.find((one) => one.container === container) ?? {};
    const limit = amended?.memoryLimit ?? spec.resources?.memoryLimit;
    return {
      time: read,
      instance: id,
      cpu: cpu_stats.cpu_usage.total_usage,
      memory: Math.max(0, usage - droppable(memory ?? {})),
      ...(limit && { memoryLimit: limit }),
      processes: pids_stats.current ?? 0,
      blockRead: bytesOf(stats, "read"),
      blockWritten: bytesOf(stats, "write"),
      ...(found.HostConfig.NetworkMode !== "host" && networkOf(stats)),
    };
  }

  return statsBy(parts, sample);
}
