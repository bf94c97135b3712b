/** One timer for many waits in a row: a new timer for each read would cost more than the read. */
export class Deadline {
  #due = Infinity;
  #act = () => {};
  #timer: ReturnType<typeof setTimeout> | undefined;
  #fires = Infinity;
  #ended = false;

  /** Calls `act` after `ms` milliseconds, unless the deadline is set again or cleared before. */
  set(ms: number, act: () => void): void {
    if (this.#ended) return;
    this.#act = act;
    this.#due = performance.now() + ms;
    if (this.#due >= this.#fires) return;
    clearTimeout(this.#timer);
    this.#arm();
  }

  clear(): void {
    this.#due = Infinity;
  }

  /** Ends the timer; the deadline must not be set again. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }

  #arm(): void {
    this.#fires = this.#due;
    this.#timer = setTimeout(() => {
      this.#fires = Infinity;
      // A timer may be early by a part of a millisecond.
      if (performance.now() + 1 >= this.#due) {
        this.#due = Infinity;
        this.#act();
      } else if (this.#due !== Infinity) {
        this.#arm();
      }
    }, Math.max(0, this.#due - performance.now()));
  }
}
