/** A pool of prepared items: one caller at a time takes an item, and may give it back for reuse. */
import type { Logger } from "../base/log.ts";

/** Items that wait in an open pool, at least and at most. */
const LEAST = 2;
const MOST = 8;

export interface ReadyPoolOptions<T> {
  make: (signal?: AbortSignal) => Promise<T>;
  /** False: the item waited too long, and is removed. */
  isGood: (one: T, signal?: AbortSignal) => Promise<boolean>;
  /** Logs an item that cannot be removed. */
  remove: (one: T) => Promise<void>;
  log: Logger;
}

export class ReadyPool<T> {
  #options: ReadyPoolOptions<T>;
  #waiting: T[] = [];
  #filling: Promise<void> | undefined;
  #stopped = false;

  constructor(options: ReadyPoolOptions<T>) {
    this.#options = options;
  }

  /** Prepares items in the background. */
  prepare(): void {
    if (this.#stopped || this.#filling) return;
    this.#filling = this.#fill().catch((error) =>
      this.#options.log.debug("no spare was prepared", { error })
    ).finally(() => this.#filling = undefined);
  }

  async #fill(): Promise<void> {
    while (!this.#stopped && this.#waiting.length < LEAST) {
      this.#waiting.push(await this.#options.make());
    }
  }

  async take(signal?: AbortSignal): Promise<T> {
    const { make, isGood, remove } = this.#options;
    // Waits for an item that is being made: that is faster than making another.
    if (this.#waiting.length === 0 && this.#filling) await this.#filling;
    let found: T | undefined;
    for (let next; found === undefined && (next = this.#waiting.pop()) !== undefined;) {
      if (await isGood(next, signal)) found = next;
      else await remove(next);
    }
    found ??= await make(signal);
    this.prepare();
    return found;
  }

  /** `spoiled`: the item must not be reused. */
  async giveBack(one: T, { spoiled = false }: { spoiled?: boolean } = {}): Promise<void> {
    if (spoiled || this.#stopped || this.#waiting.length >= MOST) await this.#options.remove(one);
    else this.#waiting.push(one);
  }

  /** Makes no more items and removes the waiting ones; taken ones are removed when they are given back. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#filling;
    await Promise.all(this.#waiting.splice(0).map((one) => this.#options.remove(one)));
  }
}
