/** Samples of instances, once or every so often: the loop of the ability `stats`. */
import { sleep } from "../base/sleep.ts";
import type { InstanceStats } from "./caps.ts";

/** Milliseconds between two samples, at least. */
const SHORTEST = 10;

export interface Sampling<T> {
  /** The instances to look at first. */
  chosen: readonly T[];
  /** Those that run at present, of the ones to look at. */
  again: () => readonly T[];
  /** Undefined where the instance has ended. */
  sample: (one: T) => Promise<InstanceStats | undefined>;
  /** Milliseconds; absent: each is sampled once. */
  everyMs?: number;
  signal?: AbortSignal;
}

export async function* sampling<T>(
  { chosen, again, sample, everyMs, signal }: Sampling<T>,
): AsyncGenerator<InstanceStats, void, void> {
  for (let next = performance.now(); chosen.length > 0; chosen = again()) {
    for (const one of await Promise.all(chosen.map(sample))) {
      if (signal?.aborted) return;
      if (one) yield one;
    }
    if (everyMs === undefined) return;
    // By the clock: the time that reading takes does not add up.
    next = Math.max(next + Math.max(everyMs, SHORTEST), performance.now());
    try {
      await sleep(next - performance.now(), signal);
    } catch {
      return; // the reader has left
    }
  }
}
