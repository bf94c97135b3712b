/** Samples of several deployments at once, with what the change from one to the next amounts to. */
import { SvcError } from "../base/errors.ts";
import type { InstanceStats } from "../api/workload.ts";
import type { Client } from "../client/client.ts";
import { listDeployments } from "../client/deployments.ts";
import { readEvents, readStats } from "../client/workloads.ts";

export interface Sample extends InstanceStats {
  /** CPU time since the sample before, in percent of one CPU; absent where there is none before. */
  cpuPercent?: number;
}

/** `before`: the sample before of the same instance. */
export function withPercent(sample: InstanceStats, before: InstanceStats | undefined): Sample {
  // A counter that is lower than before is of a container that was started again.
  if (!before || sample.cpu < before.cpu) return sample;
  const ns = (Date.parse(sample.time) - Date.parse(before.time)) * 1e6;
  return ns > 0 ? { ...sample, cpuPercent: (sample.cpu - before.cpu) / ns * 100 } : sample;
}

export interface FollowStats {
  /** Empty: all deployments, also those that start later. */
  names: readonly string[];
  instance?: string;
  signal: AbortSignal;
  onSample: (sample: Sample) => void;
  /** An instance of which there will be no more samples. */
  onEnd?: (instance: string) => void;
}

/** Samples that are this many times as old as the newest of their deployment are of an instance that has ended. */
const MISSED_MS = 3500;

/** Reads one deployment's samples until none of its instances runs. */
async function followOne(client: Client, name: string, options: FollowStats): Promise<void> {
  const last = new Map<string, InstanceStats>();
  const forget = (instance: string) => {
    last.delete(instance);
    options.onEnd?.(instance);
  };
  try {
    const samples = readStats(client, name, { follow: true, instance: options.instance });
    for await (const sample of samples) {
      options.onSample(withPercent(sample, last.get(sample.instance)));
      last.set(sample.instance, sample);
      const now = Date.parse(sample.time);
      for (const [instance, { time }] of last) {
        if (now - Date.parse(time) > MISSED_MS) forget(instance);
      }
    }
  } finally {
    for (const instance of [...last.keys()]) forget(instance);
  }
}

/** Whether an error tells that a deployment went away, or that nothing of it runs. */
const isOver = (error: unknown) =>
  error instanceof SvcError && (error.code === "not_found" || error.code === "conflict");

/**
 * Samples as they come. With names it resolves when nothing of them runs, else only the signal ends it. Throws
 * what the server reports, and the signal's reason.
 */
export async function followStats(client: Client, options: FollowStats): Promise<void> {
  const { names, signal } = options;
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => {/* its waiter is told */});
  const abort = () => stopped.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  try {
    if (names.length > 0) {
      const all = names.map((name) => followOne(client, name, options));
      return await Promise.race([Promise.all(all).then(() => {}), stopped.promise]);
    }
    /** Deployments that are read; true: started again meanwhile. */
    const read = new Map<string, boolean>();
    const begin = (name: string): void => {
      if (read.has(name)) return void read.set(name, true);
      read.set(name, false);
      followOne(client, name, options).catch((error) => {
        if (!isOver(error)) stopped.reject(error);
      }).finally(() => {
        const again = read.get(name);
        read.delete(name);
        if (again && !signal.aborted) begin(name);
      });
    };
    const started = async () => {
      for await (const { type, deployment } of readEvents(client)) {
        if (type === "started") begin(deployment);
      }
      throw new SvcError("unavailable", "Cannot go on with the counters: the server has ended");
    };
    started().catch(stopped.reject);
    for (const { name, state } of await listDeployments(client)) {
      if (state === "running") begin(name);
    }
    await stopped.promise;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
