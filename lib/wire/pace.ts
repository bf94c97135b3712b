/** How much has to come while somebody waits for it: a byte now and then is no progress. */

/** Time, for tests to make their own. */
export interface Clock {
  /** Milliseconds since some moment. */
  now(): number;
  /** Calls `work` later, once; what it gives takes that back. */
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
  /** Time in which somebody waits. */
  windowMs: number;
  /** Bytes that have to come in each such time. */
  least: number;
  /** What is thrown where they do not. */
  late: () => Error;
  clock?: Clock;
}

/**
 * What whoever builds has to send while its build waits: ten bytes a second, which any link can do, over a
 * long time, for it may look through all of its files before the first byte of an answer.
 */
export const LEAST_PACE = { windowMs: 600_000, least: 6000 };

/**
 * Watches over all that one other side sends, on however many streams: they share its connection. Time in
 * which nobody waits does not count.
 */
export class Pace {
  #options: PaceOptions;
  #clock: Clock;
  #waiting = new Set<(error: Error) => void>();
  #bytes = 0;
  /** Milliseconds of the window that were over when somebody began to wait, and that moment. */
  #before = 0;
  #since = 0;
  #disarm = () => {};

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#clock = options.clock ?? SYSTEM;
  }

  /** Somebody waits, until what this gives is called; `onLate` ends the wait where too little comes. */
  wait(onLate: (error: Error) => void): () => void {
    // The same function may wait more than once.
    const waiting = (error: Error) => onLate(error);
    this.#waiting.add(waiting);
    if (this.#waiting.size === 1) this.#arm();
    return () => {
      if (!this.#waiting.delete(waiting) || this.#waiting.size > 0) return;
      this.#disarm();
      this.#before += this.#clock.now() - this.#since;
    };
  }

  /** Bytes came, whoever they are for. */
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
