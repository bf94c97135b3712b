/** Distributes instances' events to all watchers: the `events` of a backend that produces its own events. */
import type { InstanceEvent } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";

/** Events that may wait for one watcher. */
export const MAX_WAITING = 1024;

/** One watcher's events, from its creation on. */
class Watcher {
  #waiting: InstanceEvent[] = [];
  #wake = Promise.withResolvers<void>();
  #ended = false;
  #failure: unknown;

  /** False: this watcher gets no more events. */
  tell(event: InstanceEvent): boolean {
    if (this.#waiting.length >= MAX_WAITING) {
      this.end(
        new SvcError(
          "unavailable",
          `Cannot go on with the events: more than ${MAX_WAITING} waited to be read`,
          { help: "watch again, and look at the deployments' status for what was missed" },
        ),
      );
    }
    if (this.#ended) return false;
    this.#waiting.push(event);
    this.#wake.resolve();
    return true;
  }

  /** `failure` is thrown after the events that wait; undefined: they end without an error. */
  end(failure?: unknown): void {
    if (!this.#ended) this.#failure = failure;
    this.#ended = true;
    this.#wake.resolve();
  }

  /** `left` is called when the reader stops. */
  async *read(signal: AbortSignal, left: () => void): AsyncGenerator<InstanceEvent> {
    try {
      for (;;) {
        while (this.#waiting.length > 0) {
          if (signal.aborted) return;
          yield this.#waiting.shift()!;
        }
        if (this.#ended) break;
        this.#wake = Promise.withResolvers();
        await this.#wake.promise;
      }
    } finally {
      left();
    }
    if (this.#failure !== undefined && !signal.aborted) throw this.#failure;
  }
}

export class InstanceEvents {
  #watchers = new Set<Watcher>();

  /** Call it once the status reflects the event. Does not wait for any watcher. */
  emit(event: InstanceEvent): void {
    for (const watcher of this.#watchers) {
      if (!watcher.tell(event)) this.#watchers.delete(watcher);
    }
  }

  /** See `DeployBackend.events`. */
  watch(signal: AbortSignal): AsyncIterable<InstanceEvent> {
    const watcher = new Watcher();
    const leave = () => {
      this.#watchers.delete(watcher);
      signal.removeEventListener("abort", leave);
      watcher.end();
    };
    if (signal.aborted) watcher.end();
    else {
      this.#watchers.add(watcher);
      signal.addEventListener("abort", leave, { once: true });
    }
    return watcher.read(signal, leave);
  }

  /** Ends every watcher's events, after those that wait; with this error where there is one. */
  end(failure?: unknown): void {
    for (const watcher of this.#watchers) watcher.end(failure);
    this.#watchers.clear();
  }
}
