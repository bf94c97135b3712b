/** Keys that running pushes were told exist, by repository, in this process's memory. */

/** One key that a push of one repository counts on. */
export interface Lease {
  readonly key: string;
  /** How many times a client was told that the key exists; each published manifest takes one away. */
  count: number;
  /** Shared store only: set while a durable claim holds the key. */
  claim?: { taken: number; held: Promise<void>; release: () => void };
}

interface Repository {
  /** Last activity of a push, by the table's clock. */
  touched: number;
  /** Requests that are sending bytes. */
  busy: number;
  leases: Map<string, Lease>;
}

export class LeaseTable {
  #repositories = new Map<string, Repository>();
  /** How many repositories lease a key. */
  #keys = new Map<string, number>();
  #pruned = 0;

  /** `idleMs`: a repository's leases end when its pushes rest for longer. `now`: a clock that never jumps. */
  constructor(readonly idleMs: number, readonly now: () => number = () => performance.now()) {}

  #repository(name: string): Repository {
    const now = this.now();
    if (now - this.#pruned > this.idleMs / 4) this.expire(this.idleMs);
    let found = this.#repositories.get(name);
    if (!found) this.#repositories.set(name, found = { touched: now, busy: 0, leases: new Map() });
    found.touched = now;
    return found;
  }

  /** One more client was told that `key` exists. */
  add(repository: string, key: string): Lease {
    const { leases } = this.#repository(repository);
    let lease = leases.get(key);
    if (!lease) {
      leases.set(key, lease = { key, count: 0 });
      this.#keys.set(key, (this.#keys.get(key) ?? 0) + 1);
    }
    lease.count++;
    return lease;
  }

  /** A push ended, or its client was not told after all. */
  remove(repository: string, key: string): void {
    const found = this.#repositories.get(repository);
    const lease = found?.leases.get(key);
    if (found && lease && --lease.count <= 0) this.#drop(repository, found, lease);
  }

  #drop(name: string, repository: Repository, lease: Lease): void {
    repository.leases.delete(lease.key);
    if (repository.leases.size === 0 && repository.busy === 0) this.#repositories.delete(name);
    const others = this.#keys.get(lease.key)! - 1;
    if (others > 0) this.#keys.set(lease.key, others);
    else this.#keys.delete(lease.key);
    lease.claim?.release();
  }

  /** Until disposed of, no lease of the repository ends by age. */
  busy(repository: string): Disposable {
    const found = this.#repository(repository);
    found.busy++;
    return {
      [Symbol.dispose]: () => {
        found.busy--;
        found.touched = this.now();
        if (found.leases.size === 0 && found.busy === 0) this.#repositories.delete(repository);
      },
    };
  }

  leasesOf(repository: string): Lease[] {
    return [...this.#repositories.get(repository)?.leases.values() ?? []];
  }

  has(key: string): boolean {
    return this.#keys.has(key);
  }

  get size(): number {
    return this.#keys.size;
  }

  /** Ends the leases of repositories whose pushes rested for longer than `idleMs`. */
  expire(idleMs: number): void {
    const now = this.#pruned = this.now();
    for (const [name, repository] of [...this.#repositories]) {
      if (repository.busy > 0 || now - repository.touched < idleMs) continue;
      for (const lease of [...repository.leases.values()]) this.#drop(name, repository, lease);
      this.#repositories.delete(name);
    }
  }
}
