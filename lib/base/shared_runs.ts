/** Work that brings something up to date: calls that come while it runs share one further run. */
export class SharedRuns {
  readonly #work: () => Promise<void>;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Resolves when a run has ended that began after this call; rejects as that run does. */
  run(): Promise<void> {
    if (!this.#running) return this.#begin();
    return this.#next ??= this.#running.catch(() => {}).then(() => {
      this.#next = undefined;
      return this.#begin();
    });
  }

  #begin(): Promise<void> {
    const run = this.#work().finally(() => {
      if (this.#running === run) this.#running = undefined;
    });
    this.#running = run;
    return run;
  }
}
