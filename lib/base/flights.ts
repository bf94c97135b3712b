/**
 * Running work, by key. A caller that needs the same result joins the work instead of repeating it. The work
 * is cancelled only when its last caller has left.
 */

export interface Flight<T> {
  /** Settles with the work; rejects with the reason of the caller's own signal when that aborts. */
  result: Promise<T>;
  /** True where another caller began the work. */
  joined: boolean;
  /** Settles (never rejects) when the work has ended, cancelled work too. */
  ended: Promise<void>;
  /** True while another caller waits for the work too. */
  shared: () => boolean;
}

interface Running<T, E> {
  work: Promise<T>;
  ended: Promise<void>;
  waiters: Set<(event: E) => void>;
  abort: AbortController;
}

export class Flights<T, E> {
  #running = new Map<string, Running<T, E>>();

  /**
   * Joins the running work of `key`, or calls `start`. Events that `start` emits reach every waiting caller;
   * `onEvent` gets those from now on.
   */
  join(
    key: string,
    start: (signal: AbortSignal, emit: (event: E) => void) => Promise<T>,
    onEvent: (event: E) => void,
    signal: AbortSignal,
  ): Flight<T> {
    const existing = this.#running.get(key);
    const running = existing ?? this.#start(key, start);
    // A function of its own, since one caller may join twice with the same `onEvent`.
    const listener = (event: E) => onEvent(event);
    running.waiters.add(listener);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    // The work may fail before its caller awaits it.
    promise.catch(() => {});
    const leave = () => {
      if (!running.waiters.delete(listener)) return;
      signal.removeEventListener("abort", abort);
      if (running.waiters.size > 0) return;
      // New callers must not join cancelled work.
      if (this.#running.get(key) === running) this.#running.delete(key);
      running.abort.abort(signal.reason);
    };
    const abort = () => {
      leave();
      reject(signal.reason);
    };
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    running.work.then((value) => {
      leave();
      resolve(value);
    }, (error) => {
      leave();
      reject(error);
    });
    return {
      result: promise,
      joined: existing !== undefined,
      ended: running.ended,
      shared: () => [...running.waiters].some((other) => other !== listener),
    };
  }

  /** Settles when no work is running. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) {
      await Promise.all([...this.#running.values()].map(({ ended }) => ended));
    }
  }

  #start(
    key: string,
    start: (signal: AbortSignal, emit: (event: E) => void) => Promise<T>,
  ): Running<T, E> {
    const abort = new AbortController();
    const waiters = new Set<(event: E) => void>();
    const emit = (event: E) => {
      for (const waiter of [...waiters]) waiter(event);
    };
    // Begun in a later turn, so that the first caller gets all events.
    const work = Promise.resolve().then(() => start(abort.signal, emit));
    const running: Running<T, E> = {
      work,
      waiters,
      abort,
      ended: work.then(() => {}, () => {}).then(() => {
        if (this.#running.get(key) === running) this.#running.delete(key);
      }),
    };
    this.#running.set(key, running);
    return running;
  }
}
