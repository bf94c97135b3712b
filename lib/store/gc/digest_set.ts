/** Sets of digests and keys at 16 bytes an entry: what a collection remembers of a large store. */
import { createHash } from "node:crypto";
import type { Digest } from "../../oci/types.ts";

const LANES = 4;

/**
 * An open-addressing table of 128-bit values, which cannot be listed again. Two digests with the same first 128
 * bits count as one: nobody can make such a pair.
 */
export class DigestSet {
  #table: Uint32Array;
  #mask: number;
  #size = 0;
  /** Holds the value of all zeros, which marks an empty place in the table. */
  #zero = false;
  #value = new Uint32Array(LANES);

  constructor(capacity = 1024) {
    let places = 16;
    while (places < capacity * 2) places *= 2;
    this.#table = new Uint32Array(places * LANES);
    this.#mask = places - 1;
  }

  get size(): number {
    return this.#size + (this.#zero ? 1 : 0);
  }

  /** Bytes of memory in use. */
  get bytes(): number {
    return this.#table.byteLength;
  }

  add(digest: Digest): void {
    this.#readHex(digest, digest.indexOf(":") + 1);
    this.#insert();
  }

  has(digest: Digest): boolean {
    return this.hasHexAt(digest, digest.indexOf(":") + 1);
  }

  /** Whether the set has the digest whose hex digits begin at `at` of `text`. */
  hasHexAt(text: string, at: number): boolean {
    this.#readHex(text, at);
    return this.#contains();
  }

  /** Adds any text, by its hash. */
  addKey(key: string): void {
    this.#readKey(key);
    this.#insert();
  }

  hasKey(key: string): boolean {
    this.#readKey(key);
    return this.#contains();
  }

  #readHex(text: string, at: number): void {
    for (let lane = 0; lane < LANES; lane++) {
      let value = 0;
      for (const end = at + 8; at < end; at++) {
        // "0" to "9" are 0x30 to 0x39, "a" to "f" 0x61 to 0x66.
        const code = text.charCodeAt(at);
        value = value << 4 | (code & 15) + (code >> 6) * 9;
      }
      this.#value[lane] = value;
    }
  }

  #readKey(key: string): void {
    const hash = createHash("sha256").update(key).digest();
    for (let lane = 0; lane < LANES; lane++) this.#value[lane] = hash.readUInt32LE(lane * 4);
  }

  /** Offset of the value, or of the empty place where it belongs. */
  #find(a: number, b: number, c: number, d: number): number {
    const table = this.#table;
    for (let place = (a ^ c) & this.#mask;; place = place + 1 & this.#mask) {
      const at = place * LANES;
      if (
        table[at] === a && table[at + 1] === b && table[at + 2] === c && table[at + 3] === d ||
        this.#isEmpty(at)
      ) return at;
    }
  }

  /** The first place to look for the value at hand. */
  #place(): number {
    const value = this.#value;
    return this.#find(value[0], value[1], value[2], value[3]);
  }

  #isEmpty(at: number): boolean {
    const table = this.#table;
    return (table[at] | table[at + 1] | table[at + 2] | table[at + 3]) === 0;
  }

  #isZero(): boolean {
    const value = this.#value;
    return (value[0] | value[1] | value[2] | value[3]) === 0;
  }

  #contains(): boolean {
    return this.#isZero() ? this.#zero : !this.#isEmpty(this.#place());
  }

  #insert(): void {
    if (this.#isZero()) {
      this.#zero = true;
      return;
    }
    const at = this.#place();
    if (!this.#isEmpty(at)) return;
    this.#table.set(this.#value, at);
    if (++this.#size * 2 > this.#mask) this.#grow();
  }

  #grow(): void {
    const old = this.#table;
    this.#table = new Uint32Array(old.length * 2);
    this.#mask = this.#mask * 2 + 1;
    for (let at = 0; at < old.length; at += LANES) {
      const [a, b, c, d] = [old[at], old[at + 1], old[at + 2], old[at + 3]];
      if ((a | b | c | d) === 0) continue;
      const to = this.#find(a, b, c, d);
      this.#table[to] = a;
      this.#table[to + 1] = b;
      this.#table[to + 2] = c;
      this.#table[to + 3] = d;
    }
  }
}
