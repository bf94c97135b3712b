/** Answers to the same question may overtake each other: which of them is still news. */

/** A question that is asked until this is disposed of. */
export interface Turn extends Disposable {
  /** Something later is known by now: the answer is to be dropped. */
  readonly old: boolean;
  /** The answer is taken: all questions of before are old. */
  take(): void;
}

export class Turns {
  /** In the order in which they began. */
  readonly #open = new Map<string, Set<{ old: boolean }>>();

  begin(key: string): Turn {
    const turn = { old: false };
    const open = this.#open.get(key) ?? new Set();
    this.#open.set(key, open.add(turn));
    return {
      get old() {
        return turn.old;
      },
      take: () => this.#end(key, turn),
      [Symbol.dispose]: () => {
        open.delete(turn);
        if (open.size === 0 && this.#open.get(key) === open) this.#open.delete(key);
      },
    };
  }

  /** All questions that are asked are old. */
  end(key: string): void {
    this.#end(key);
  }

  #end(key: string, before?: { old: boolean }): void {
    for (const turn of this.#open.get(key) ?? []) {
      if (turn === before) return;
      turn.old = true;
    }
  }
}
