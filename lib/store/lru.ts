/** A map that drops its least recently used entries once its values cost more than a limit. */
export class Lru<V> {
  #entries = new Map<string, { value: V; cost: number }>();
  #cost = 0;

  constructor(private readonly limit: number, private readonly costOf: (value: V) => number) {}

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry.value;
  }

  set(key: string, value: V): void {
    this.delete(key);
    const cost = this.costOf(value);
    if (cost > this.limit) return;
    this.#entries.set(key, { value, cost });
    this.#cost += cost;
    for (const [oldest] of this.#entries) {
      if (this.#cost <= this.limit) break;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    this.#cost -= entry.cost;
  }
}

/**
 * Values that were read from a store, remembered until the store is written. A value whose reading overlapped a
 * write is returned and not remembered: it may be the old one.
 */
export class ReadCache<V> {
  #lru: Lru<V>;
  #loading = new Map<string, object>();

  constructor(limit: number, costOf: (value: V) => number) {
    this.#lru = new Lru(limit, costOf);
  }

  async read(key: string, load: () => Promise<V | undefined>): Promise<V | undefined> {
    const known = this.#lru.get(key);
    if (known !== undefined) return known;
    const own = {};
    this.#loading.set(key, own);
    try {
      const value = await load();
      if (value !== undefined && this.#loading.get(key) === own) this.#lru.set(key, value);
      return value;
    } finally {
      if (this.#loading.get(key) === own) this.#loading.delete(key);
    }
  }

  /** Call it after the write is done. */
  forget(key: string): void {
    this.#lru.delete(key);
    this.#loading.delete(key);
  }
}
