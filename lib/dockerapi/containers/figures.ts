/** `top` and `stats`. */
import type { InstanceStats } from "../../api/workload.ts";
import { listProcesses, readStats } from "../../client/workloads.ts";
import type { DockerApi } from "../api.ts";
import { conflict, invalid } from "../errors.ts";
import { isUp, type Seen } from "./seen.ts";
import type { Answer, Call } from "../request.ts";

/** What `ps` prints without options, and what docker's clients ask for themselves. */
const USUAL = ["", "-ef", "ef", "aux", "-aux"];

export async function top(call: Call, api: DockerApi): Promise<Answer> {
  const args = call.query.get("ps_args") ?? "";
  if (!USUAL.includes(args.trim())) {
    throw invalid(`Cannot list processes with ps ${args}: there are no options`);
  }
  const { record, instance } = await api.containers.find(call.params.id, call.signal);
  if (!isUp(instance)) {
    throw conflict(`container ${record.id} is not running`);
  }
  const [list] = await listProcesses(api.client(call.signal), record.deployment, instance?.id);
  return { json: { Titles: list?.titles ?? [], Processes: list?.processes ?? [] } };
}

const NOTHING = { cpu: 0, time: "" };

/**
 * One reading. A system of one processor that is always at work makes docker's arithmetic come out at percent of one
 * processor.
 */
function processorOf({ cpu, time }: { cpu: number; time: string }) {
  return {
    cpu_usage: { total_usage: cpu, usage_in_kernelmode: 0, usage_in_usermode: 0 },
    ...time && { system_cpu_usage: Date.parse(time) * 1e6, online_cpus: 1 },
    throttling_data: { periods: 0, throttled_periods: 0, throttled_time: 0 },
  };
}

/** Clients take no empty text for a time. */
const NEVER = "0001-01-01T00:00:00Z";

function sampleOf({ record }: Seen, now: InstanceStats, before: { cpu: number; time: string }) {
  const { received, sent, memoryLimit, blockRead, blockWritten } = now;
  const entry = (op: string, value: number) => ({ major: 0, minor: 0, op, value });
  return {
    name: `/${record.name}`,
    id: record.id,
    read: now.time || NEVER,
    preread: before.time || NEVER,
    pids_stats: { current: now.processes },
    num_procs: 0,
    cpu_stats: processorOf(now),
    precpu_stats: processorOf(before),
    memory_stats: {
      usage: now.memory,
      // Without one, docker shows the machine's memory.
      limit: memoryLimit ?? Deno.systemMemoryInfo().total,
      stats: {},
    },
    blkio_stats: {
      io_service_bytes_recursive: [entry("read", blockRead), entry("write", blockWritten)],
    },
    storage_stats: {},
    ...received !== undefined && {
      networks: {
        eth0: {
          ...{ rx_bytes: received, rx_packets: 0, rx_errors: 0, rx_dropped: 0 },
          ...{ tx_bytes: sent ?? 0, tx_packets: 0, tx_errors: 0, tx_dropped: 0 },
        },
      },
    },
  };
}

export async function stats(call: Call, api: DockerApi): Promise<Answer> {
  const seen = await api.containers.find(call.params.id, call.signal);
  const { record, instance } = seen;
  const follows = call.flag("stream", true);
  const once = call.flag("one-shot");
  const headers = { "content-type": "application/json" };
  if (!isUp(instance)) {
    const none = { memory: 0, processes: 0, blockRead: 0, blockWritten: 0 };
    return { headers, json: sampleOf(seen, { ...NOTHING, ...none, instance: "" }, NOTHING) };
  }
  const readings = readStats(api.client(call.signal), record.deployment, {
    follow: follows || !once,
    instance: instance?.id,
  });
  return {
    headers,
    stream: (async function* () {
      let before: { cpu: number; time: string } = NOTHING;
      for await (const now of readings) {
        // A single answer has two readings, so that there is a difference.
        if (follows || once || before.time) {
          yield `${JSON.stringify(sampleOf(seen, now, before))}\n`;
          if (!follows) return;
        }
        before = now;
      }
    })(),
  };
}
