/** The guard of a store that one process has to itself; see guard.ts. */
import type { Digest } from "../../oci/types.ts";
import { Gate } from "../gate.ts";
import type { CallOptions } from "../object_store.ts";
import { type Guard, IDLE_MS, type PublishStep, type SweepOptions } from "./guard.ts";
import { LeaseTable } from "./lease_table.ts";

/** Keys that are removed in one step, while publications wait. */
const BATCH = 128;

/** Nothing to do: a lease in memory is safe at once. */
const STEP: PublishStep = {
  confirm: () => Promise.resolve(),
  secure: () => Promise.resolve(),
  threatened: () => false,
};

export class LocalGuard implements Guard {
  readonly shared = false;
  #seen?: (keys: string[]) => void;
  #gate = new Gate();
  #leases: LeaseTable;
  #dying = new Map<string, Promise<void>>();
  readonly #opened = Date.now();
  /** The same moment by a clock that nobody sets. */
  readonly #begun = performance.now();

  constructor(idleMs: number = IDLE_MS) {
    this.#leases = new LeaseTable(idleMs);
  }

  async lease(repository: string, key: string): Promise<boolean> {
    this.#leases.add(repository, key);
    await this.#dying.get(key);
    return true;
  }

  release(repository: string, keys: string[]): void {
    for (const key of keys) this.#leases.remove(repository, key);
  }

  busy(repository: string): Disposable {
    return this.#leases.busy(repository);
  }

  publish<T>(keys: string[], work: (step: PublishStep) => Promise<T>): Promise<T> {
    return this.#gate.shared(() => {
      this.#seen?.(keys);
      return work(STEP);
    });
  }

  async watch(seen: ((keys: string[]) => void) | undefined): Promise<void> {
    this.#seen = seen;
    if (seen) await this.#gate.exclusive(() => Promise.resolve());
  }

  secure(_digest: Digest): Promise<void> {
    return Promise.resolve();
  }

  withdraw<T>(keys: string[], work: (begin: () => void) => Promise<T>): Promise<T> {
    return this.#gate.exclusive(() => this.#removing(keys, () => work(() => {})));
  }

  /** Call it in the same turn as the check of the leases: then every later lease finds its key dying. */
  async #removing<T>(keys: string[], work: () => Promise<T>): Promise<T> {
    const { promise, resolve } = Promise.withResolvers<void>();
    for (const key of keys) this.#dying.set(key, promise);
    try {
      return await work();
    } finally {
      for (const key of keys) this.#dying.delete(key);
      resolve();
    }
  }

  async sweep(keys: string[], options: SweepOptions & CallOptions) {
    const result = { removed: 0, leased: 0 };
    this.#leases.expire(options.idleMs);
    for (let at = 0; at < keys.length; at += BATCH) {
      options.signal?.throwIfAborted();
      await this.#gate.exclusive(async () => {
        const idle = await options.recheck(keys.slice(at, at + BATCH));
        const doomed = idle.filter((key) => !this.#leases.has(key));
        result.leased += idle.length - doomed.length;
        await this.#removing(doomed, () => options.remove(doomed));
        result.removed += doomed.length;
      });
    }
    return result;
  }

  condemned(): Promise<boolean> {
    return Promise.resolve(false);
  }

  unsureTime(idleMs: number): { from: Date; to: Date } | undefined {
    if (performance.now() - this.#begun >= idleMs) return undefined;
    return { from: new Date(this.#opened - idleMs), to: new Date(this.#opened) };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
