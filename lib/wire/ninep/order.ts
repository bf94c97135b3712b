/** Starts works in the order in which they came: each after the changes before it are done. */
import type { Later } from "../files/stat.ts";

/**
 * What a work changes. `content`, of a file: later changes wait for it, and others do not, since whoever reads the file
 * has its turn after it. `names`, or attributes: whatever comes later waits.
 */
export type Changes = "nothing" | "content" | "names";

export class Order {
  #changing: Changes = "nothing";
  readonly #waiting: { changes: Changes; start: () => void }[] = [];

  #may(changes: Changes): boolean {
    return this.#changing === "nothing" || this.#changing === "content" && changes === "nothing";
  }

  run<R>(changes: Changes, work: () => Later<R>): Later<R> {
    if (this.#waiting.length === 0 && this.#may(changes)) return this.#start(changes, work);
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    const start = () => {
      try {
        resolve(this.#start(changes, work));
      } catch (error) {
        reject(error);
      }
    };
    this.#waiting.push({ changes, start });
    return promise;
  }

  #start<R>(changes: Changes, work: () => Later<R>): Later<R> {
    const done = work();
    if (changes === "nothing" || !(done instanceof Promise)) return done;
    this.#changing = changes;
    const next = () => {
      this.#changing = "nothing";
      // All at once: nobody who comes meanwhile is before those that wait.
      while (this.#waiting.length > 0 && this.#may(this.#waiting[0].changes)) {
        this.#waiting.shift()!.start();
      }
    };
    done.then(next, next);
    return done;
  }
}
