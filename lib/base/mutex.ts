/** Locks within one process. */

/** A queue of waiters: `acquire` resolves in the order of calls; dispose the result to release. */
export class Mutex {
  #tail: Promise<void> = Promise.resolve();

  async acquire(): Promise<Disposable> {
    const before = this.#tail;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#tail = promise;
    await before;
    return { [Symbol.dispose]: resolve };
  }

  async run<T>(work: () => Promise<T> | T): Promise<T> {
    using _held = await this.acquire();
    return await work();
  }
}

/** One mutex per key, forgotten when nobody holds or awaits it. */
export class KeyedMutex {
  #locks = new Map<string, { mutex: Mutex; users: number }>();

  async run<T>(key: string, work: () => Promise<T> | T): Promise<T> {
    const lock = this.#locks.get(key) ?? { mutex: new Mutex(), users: 0 };
    this.#locks.set(key, lock);
    lock.users++;
    try {
      return await lock.mutex.run(work);
    } finally {
      if (--lock.users === 0) this.#locks.delete(key);
    }
  }
}

/** At most `limit` holders at once; first come, first served. */
export class Semaphore {
  #free: number;
  #waiting: { grant: () => void; onPlace?: (place: number) => void }[] = [];

  constructor(limit: number) {
    this.#free = limit;
  }

  /**
   * `onPlace` is called with the caller's place in the queue, from 1, if it has to wait, and with every
   * change of it.
   */
  async run<T>(
    work: () => Promise<T>,
    signal?: AbortSignal,
    onPlace?: (place: number) => void,
  ): Promise<T> {
    if (this.#free > 0) this.#free--;
    else {
      await new Promise<void>((resolve, reject) => {
        const grant = () => {
          signal?.removeEventListener("abort", abort);
          resolve();
        };
        const waiter = { grant, onPlace };
        const abort = () => {
          this.#leave(this.#waiting.indexOf(waiter));
          reject(signal!.reason);
        };
        if (signal?.aborted) return reject(signal.reason);
        signal?.addEventListener("abort", abort, { once: true });
        this.#waiting.push(waiter);
        onPlace?.(this.#waiting.length);
      });
    }
    try {
      return await work();
    } finally {
      const next = this.#waiting[0];
      if (next) {
        this.#leave(0);
        next.grant();
      } else this.#free++;
    }
  }

  #leave(at: number): void {
    this.#waiting.splice(at, 1);
    for (let i = at; i < this.#waiting.length; i++) this.#waiting[i].onPlace?.(i + 1);
  }
}
