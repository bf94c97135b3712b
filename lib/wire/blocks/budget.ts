/** Bounds the blocks of all files of a mount: the one that was not used for the longest time goes first. */

/** Blocks of 64 KiB: 128 MiB. */
const MOST = 2048;

export interface Block {
  readonly index: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Bits of the parts that are known. Behind the file's end they are zero. */
  known: number;
  /** The count of the last write to each part. */
  readonly wrote: number[];
}

export class BlockBudget {
  /** In the order of their last use. */
  readonly #used = new Map<Block, () => void>();
  readonly #most: number;

  constructor(most = MOST) {
    this.#most = most;
  }

  /** `evict` forgets the block at its file. */
  add(block: Block, evict: () => void): void {
    this.#used.set(block, evict);
    for (const [oldest, evict] of this.#used) {
      if (this.#used.size <= this.#most || oldest === block) break;
      this.#used.delete(oldest);
      evict();
    }
  }

  touch(block: Block): void {
    const evict = this.#used.get(block);
    if (!evict) return;
    this.#used.delete(block);
    this.#used.set(block, evict);
  }

  forget(block: Block): void {
    this.#used.delete(block);
  }
}
