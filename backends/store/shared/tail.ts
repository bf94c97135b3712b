/** The bytes of an upload behind its last whole part: one buffer that grows as needed. */
import { PART } from "./upload_state.ts";

const FIRST = 256 * 1024;

export class Tail {
  #buffer = new Uint8Array(0);
  size = 0;

  get full(): boolean {
    return this.size === PART;
  }

  /** Takes the bytes that fit; returns their number. */
  add(bytes: Uint8Array): number {
    const taken = Math.min(bytes.length, PART - this.size);
    const needed = this.size + taken;
    if (needed > this.#buffer.length) {
      const grown = new Uint8Array(Math.min(PART, Math.max(FIRST, needed, 2 * this.size)));
      grown.set(this.#buffer.subarray(0, this.size));
      this.#buffer = grown;
    }
    this.#buffer.set(bytes.subarray(0, taken), this.size);
    this.size = needed;
    return taken;
  }

  /** The bytes held; valid until the next `add`. */
  get bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.size);
  }
}
