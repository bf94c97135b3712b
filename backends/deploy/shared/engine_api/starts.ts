/** Who has something to do just before a container starts. */
export class Starts {
  readonly #waiting = new Map<string, Set<() => Promise<void>>>();

  /** `act` runs before each start of the container until this is disposed of. */
  before(container: string, act: () => Promise<void>): Disposable {
    const all = this.#waiting.get(container) ?? new Set();
    this.#waiting.set(container, all.add(act));
    return {
      [Symbol.dispose]: () => {
        all.delete(act);
        if (all.size === 0) this.#waiting.delete(container);
      },
    };
  }

  /** Resolves when all have done it. A start does not fail with what is done before it. */
  async about(container: string): Promise<void> {
    await Promise.allSettled([...this.#waiting.get(container) ?? []].map((act) => act()));
  }
}
