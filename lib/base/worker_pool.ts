/**
 * Workers that do one job at a time: a few stay for a while after their last, because starting one costs
 * tens of milliseconds of processor time.
 */
import { startWorker, type WorkerName } from "./worker.ts";

const IDLE_MS = 60_000;
/** Idle ones of a name. */
const MAX_IDLE = 2;

interface Idle {
  worker: Worker;
  timer: ReturnType<typeof setTimeout>;
}

const idle = new Map<WorkerName, Idle[]>();

/** One that waits, or a new one. The caller gives it back, or terminates it where its job did not end well. */
export function takeWorker(name: WorkerName): Worker {
  const waiting = idle.get(name)?.pop();
  if (!waiting) return startWorker(name);
  clearTimeout(waiting.timer);
  return waiting.worker;
}

/** Its job is done, and nothing of it on the way. */
export function giveWorker(name: WorkerName, worker: Worker): void {
  worker.onmessage = worker.onerror = null;
  const others = idle.get(name) ?? [];
  idle.set(name, others);
  if (others.length >= MAX_IDLE) return worker.terminate();
  const timer = setTimeout(() => {
    others.splice(others.findIndex((waiting) => waiting.worker === worker), 1);
    worker.terminate();
  }, IDLE_MS);
  others.push({ worker, timer });
}

/** Ends those that wait for work; the next job starts new ones. */
export function closeIdleWorkers(): void {
  for (const waiting of idle.values()) {
    for (const { worker, timer } of waiting.splice(0)) {
      clearTimeout(timer);
      worker.terminate();
    }
  }
}
