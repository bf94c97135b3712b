/** Work that something stands in the way of for now: it is tried again until it is done. */

/** Milliseconds until the first try. Each further pause is twice as long, up to the second one. */
const FIRST_MS = 2000;
const MOST_MS = 60_000;

/** False, or a rejection: it is not done. `isLatest` is false once other work was taken for the same key. */
export type LaterWork = (isLatest: () => boolean) => Promise<boolean>;

export class Later<Key> {
  readonly #timers = new Map<Key, ReturnType<typeof setTimeout>>();
  readonly #firstMs: number;
  #stopped = false;

  constructor(firstMs = FIRST_MS) {
    this.#firstMs = firstMs;
  }

  /** Takes the place of what waits for the same key. */
  take(key: Key, work: LaterWork): void {
    this.#wait(key, work, this.#firstMs);
  }

  #wait(key: Key, work: LaterWork, ms: number): void {
    if (this.#stopped) return;
    clearTimeout(this.#timers.get(key));
    const isLatest = () => this.#timers.get(key) === timer;
    const timer = setTimeout(async () => {
      const done = await work(isLatest).catch(() => false);
      if (!isLatest()) return;
      this.#timers.delete(key);
      if (!done) this.#wait(key, work, Math.min(2 * ms, MOST_MS));
    }, ms);
    this.#timers.set(key, timer);
  }

  /** Nothing is tried or taken any more; what is being tried goes on. */
  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}
