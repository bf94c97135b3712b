/**
 * Work that adds references to blobs (a manifest PUT: it checks its blobs, then publishes) runs shared. Work
 * that removes blobs because nothing refers to them runs exclusive. So no blob vanishes between the check and
 * the publication. Shared calls that come while an exclusive one waits queue behind it.
 */
export class Gate {
  #shared = new Set<Promise<unknown>>();
  #exclusive: Promise<unknown> = Promise.resolve();

  async shared<T>(work: () => Promise<T>): Promise<T> {
    for (let seen; seen !== this.#exclusive;) await (seen = this.#exclusive);
    const run = work();
    const settled = run.catch(() => {});
    this.#shared.add(settled);
    try {
      return await run;
    } finally {
      this.#shared.delete(settled);
    }
  }

  exclusive<T>(work: () => Promise<T>): Promise<T> {
    const run = this.#exclusive.then(async () => {
      await Promise.all(this.#shared);
      return await work();
    });
    this.#exclusive = run.catch(() => {});
    return run;
  }
}
