/** Collections in the background (SVC_GC_INTERVAL). */
import type { GcResult } from "../api/storage.ts";
import { isAbort, SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";

export interface GcScheduleOptions {
  intervalMs: number;
  collect: (options: { signal: AbortSignal }) => Promise<GcResult>;
  log: Logger;
}

/** Collects after each interval. Dispose of it to end: a running collection is stopped and awaited. */
export function scheduleGc({ intervalMs, collect, log }: GcScheduleOptions): AsyncDisposable {
  const stop = new AbortController();
  let running: Promise<void> = Promise.resolve();
  const once = async () => {
    try {
      const { durationMs, ...result } = await collect({ signal: stop.signal });
      log.info("collected garbage", { ...result, durationMs });
    } catch (error) {
      if (stop.signal.aborted && isAbort(error)) return;
      // Another collection is running: it does the work.
      if (error instanceof SvcError && error.code === "conflict") return;
      log.error("garbage was not collected", { error });
    }
  };
  // A timer cannot count longer intervals: they are waited for in steps.
  const longest = 2 ** 31 - 1;
  let timer: ReturnType<typeof setTimeout>;
  const wait = (left: number) => {
    timer = setTimeout(() => {
      if (left > longest) return wait(left - longest);
      running = once().then(() => {
        if (!stop.signal.aborted) wait(intervalMs);
      });
    }, Math.min(left, longest));
  };
  wait(intervalMs);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort(new DOMException("the server is shutting down", "AbortError"));
      clearTimeout(timer);
      await running;
    },
  };
}
