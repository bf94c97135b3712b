/** Orders access to one thing: many callers together, or one alone, in the order in which they came. */
import type { Later } from "../files/stat.ts";

export class Turns {
  #alone: Promise<unknown> | undefined;
  #together = new Set<Promise<unknown>>();

  /** Runs `work` beside others of `together`, after earlier callers of `alone`. */
  together<R>(work: () => Later<R>): Later<R> {
    const result = this.#alone ? this.#alone.then(work) : work();
    if (result instanceof Promise) {
      this.#together.add(result);
      const done = () => void this.#together.delete(result);
      result.then(done, done);
    }
    return result;
  }

  /** Runs `work` after all earlier callers and before all later ones. */
  alone<R>(work: () => Later<R>): Later<R> {
    const before = [...this.#together];
    if (this.#alone) before.push(this.#alone);
    const result = before.length > 0 ? Promise.allSettled(before).then(work) : work();
    if (result instanceof Promise) {
      const alone = this.#alone = result.then(() => {}, () => {}).then(() => {
        if (this.#alone === alone) this.#alone = undefined;
      });
    }
    return result;
  }
}
