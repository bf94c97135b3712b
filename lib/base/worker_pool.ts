/**
 * Workers that do one job at a time. A few stay idle for a while after their last job, because starting a
 * Worker costs tens of milliseconds of processor time.
 */
import { startWorker, type WorkerName } from "./worker.ts";

/** Milliseconds that a Worker waits for its next job: it holds about 20 MB meanwhile. */
export const WORKER_IDLE_MS = 15_000;
/** Most idle Workers of one name. */
const MAX_IDLE = 2;

interface Idle {
  worker: Worker;
  timer: ReturnType<typeof setTimeout>;
}

const idle = new Map<WorkerName, Idle[]>();

/**
 * An idle Worker, or a new one. The caller gives it back after a successful job, and terminates it after a
 * failed one.
 */
export function takeWorker(name: WorkerName): Worker {
  const waiting = idle.get(name)?.pop();
  if (!waiting) return startWorker(name);
  clearTimeout(waiting.timer);
  return waiting.worker;
}

/** Takes a Worker back. Its job must be done, with no message still under way. */
export function giveWorker(name: WorkerName, worker: Worker): void {
  worker.onmessage = worker.onerror = null;
  const others = idle.get(name) ?? [];
  idle.set(name, others);
  if (others.length >= MAX_IDLE) return worker.terminate();
  const timer = setTimeout(() => {
    others.splice(others.findIndex((waiting) => waiting.worker === worker), 1);
    worker.terminate();
  }, WORKER_IDLE_MS);
  others.push({ worker, timer });
}

/** Terminates the idle Workers; the next job starts a new one. */
export function closeIdleWorkers(): void {
  for (const waiting of idle.values()) {
    for (const { worker, timer } of waiting.splice(0)) {
      clearTimeout(timer);
      worker.terminate();
    }
  }
}
