/** Entries that are kept at most. */
const LIMIT = 10_000;

/** A map whose entries expire after their time, or when there are too many. */
export class Recent<V> {
  #entries = new Map<string, { value: V; until: number }>();

  constructor(private readonly now: () => number) {}

  get(key: string): V | undefined {
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    if (entry.until > this.now()) return entry.value;
    this.#entries.delete(key);
    return undefined;
  }

  /** Keeps the value for `ms` milliseconds. */
  set(key: string, value: V, ms: number): void {
    this.#entries.delete(key);
    this.#entries.set(key, { value, until: this.now() + ms });
    if (this.#entries.size <= LIMIT) return;
    const [oldest] = this.#entries.keys();
    this.#entries.delete(oldest);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}
