/** An end for what nothing tells the end of: UDP flows, most of all. */

/** Calls `act`, once, when nothing has touched it for `ms` milliseconds. Touching is cheap. */
export class Idle implements Disposable {
  #last = performance.now();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly ms: number, private readonly act: () => void) {
    this.#wait(ms);
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(() => {
      const left = this.#last + this.ms - performance.now();
      if (left > 0) this.#wait(Math.ceil(left));
      else this.act();
    }, ms);
  }

  touch(): void {
    this.#last = performance.now();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
