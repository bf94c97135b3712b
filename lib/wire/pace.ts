/** The least pace of the other side while somebody waits for it: a byte now and then is no progress. */

/** The time; tests have their own. */
export interface Clock {
  /** Milliseconds since a fixed moment. */
  now(): number;
  /** Calls `work` once after `ms`; the returned function cancels that. */
  after(ms: number, work: () => void): () => void;
}

const SYSTEM: Clock = {
  now: () => performance.now(),
  after: (ms, work) => {
    const timer = setTimeout(work, ms);
    return () => clearTimeout(timer);
  },
};

export interface PaceOptions {
  /** Milliseconds of waiting in one window. */
  windowMs: number;
  /** Bytes that have to come in each window. */
  least: number;
  /** Makes the error for a window with fewer bytes. */
  late: () => Error;
  clock?: Clock;
}

/**
 * The least pace of a caller while its build waits: ten bytes a second, which any link can do. The window is
 * long, as the caller may have to read all of its files before the first byte of an answer.
 */
export const LEAST_PACE = { windowMs: 600_000, least: 6000 };

/**
 * Watches all bytes from the other side on all of its streams, which share a connection. Time in which nobody
 * waits does not count.
 */
export class Pace {
  #options: PaceOptions;
  #clock: Clock;
  #waiting = new Set<(error: Error) => void>();
  #bytes = 0;
  /** Milliseconds of the window that had passed when waiting began, and that moment. */
  #before = 0;
  #since = 0;
  #disarm = () => {};

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#clock = options.clock ?? SYSTEM;
  }

  /** Starts a wait; the returned function ends it. Where too few bytes come, `onLate` is called. */
  wait(onLate: (error: Error) => void): () => void {
    // A new function for each wait: the same `onLate` may wait more than once.
    const waiting = (error: Error) => onLate(error);
    this.#waiting.add(waiting);
    if (this.#waiting.size === 1) this.#arm();
    return () => {
      if (!this.#waiting.delete(waiting) || this.#waiting.size > 0) return;
      this.#disarm();
      this.#before += this.#clock.now() - this.#since;
    };
  }

  /** Bytes arrived, on any stream. */
  came(bytes: number): void {
    this.#bytes += bytes;
  }

  #arm(): void {
    this.#since = this.#clock.now();
    const left = Math.max(0, this.#options.windowMs - this.#before);
    this.#disarm = this.#clock.after(left, () => this.#look());
  }

  #look(): void {
    const enough = this.#bytes >= this.#options.least;
    this.#bytes = this.#before = 0;
    if (enough) return this.#arm();
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const late of waiting) late(this.#options.late());
  }
}
