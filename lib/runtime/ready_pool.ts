/** Things that are made ahead, taken by one at a time, and taken again when they were given back. */
import type { Logger } from "../base/log.ts";

/** How many wait at least, while the pool is there, and how many at most. */
const LEAST = 2;
const MOST = 8;

export interface ReadyPoolOptions<T> {
  make: (signal?: AbortSignal) => Promise<T>;
  /** False: it waited too long, and is removed. */
  isGood: (one: T, signal?: AbortSignal) => Promise<boolean>;
  /** Logs what cannot be removed. */
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

  /** Makes some ahead, in the background. */
  prepare(): void {
    if (this.#stopped || this.#filling) return;
    this.#filling = this.#fill().catch((error) =>
      this.#options.log.debug("nothing was made ahead", { error })
    ).finally(() => this.#filling = undefined);
  }

  async #fill(): Promise<void> {
    while (!this.#stopped && this.#waiting.length < LEAST) {
      this.#waiting.push(await this.#options.make());
    }
  }

  async take(signal?: AbortSignal): Promise<T> {
    const { make, isGood, remove } = this.#options;
    // One that is being made is waited for: sooner than to begin with another.
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

  /** `spoiled`: nobody else may have it. */
  async giveBack(one: T, { spoiled = false }: { spoiled?: boolean } = {}): Promise<void> {
    if (spoiled || this.#stopped || this.#waiting.length >= MOST) await this.#options.remove(one);
    else this.#waiting.push(one);
  }

  /** Nothing is made any more, and what waits is removed; what was taken goes when it is given back. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#filling;
    await Promise.all(this.#waiting.splice(0).map((one) => this.#options.remove(one)));
  }
}
