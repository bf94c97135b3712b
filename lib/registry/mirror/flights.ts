/** Requests to an upstream: each is made once, however many callers wait for its answer. */
import { waitFor } from "../../base/wait_for.ts";

export class Flights<T> {
  #running = new Map<string, Promise<T>>();

  /** Joins the running work of that key, or begins it. `signal` ends the waiting, never the work. */
  async run(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    let running = this.#running.get(key);
    if (!running) {
      running = work().finally(() => this.#running.delete(key));
      // All callers may have stopped waiting when the work fails.
      running.catch(() => {});
      this.#running.set(key, running);
    }
    return await waitFor(running, signal);
  }

  /** Resolves when no work runs. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }
}
