/** A timer for things that never report their end, such as UDP flows. */

/** Calls `act` once, after `ms` milliseconds without a touch. Touching is cheap. */
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
