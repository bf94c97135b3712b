/**
 * Work under way, by key: whoever needs the same result joins instead of doing it again. The work is
 * cancelled only when the last of them has gone.
 */

export interface Flight<T> {
  /** Settles with the work; rejects with the signal's reason once the caller's own signal aborts. */
  result: Promise<T>;
  /** True where another caller had begun it. */
  joined: boolean;
  /** Settles (never rejects) when the work has ended, cancelled work too. */
  ended: Promise<void>;
  /** True while anyone else waits for it. */
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
   * `start` is called where nothing of that key runs; its `emit` reaches every caller that waits.
   * `onEvent` gets what is emitted from now on.
   */
  join(
    key: string,
    start: (signal: AbortSignal, emit: (event: E) => void) => Promise<T>,
    onEvent: (event: E) => void,
    signal: AbortSignal,
  ): Flight<T> {
    const existing = this.#running.get(key);
    const running = existing ?? this.#start(key, start);
    // One caller may wait twice: each wait is its own.
    const listener = (event: E) => onEvent(event);
    running.waiters.add(listener);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    // It may fail before its caller gets to wait for it.
    promise.catch(() => {});
    const leave = () => {
      if (!running.waiters.delete(listener)) return;
      signal.removeEventListener("abort", abort);
      if (running.waiters.size > 0) return;
      // Nobody may join what is being cancelled.
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

  /** Settles when nothing is under way any more. */
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
    // Begun in a later turn, so that the first caller listens already.
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
