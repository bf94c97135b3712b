/** Sets of digests and keys at 16 bytes an entry: what a collection remembers of a large store. */
import { createHash } from "node:crypto";
import type { Digest } from "../../oci/types.ts";

const LANES = 4;

/**
 * An open-addressing table of 128-bit values; they cannot be listed again. Two digests that agree in
 * their first 128 bits count as one: nobody can make such a pair.
 */
export class DigestSet {
  #table: Uint32Array;
  #mask: number;
  #size = 0;
  /** The value of all zeros, which marks an empty place. */
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

  /** Bytes held. */
  get bytes(): number {
    return this.#table.byteLength;
  }

  add(digest: Digest): void {
    this.#readDigest(digest);
    this.#insert();
  }

  has(digest: Digest): boolean {
    this.#readDigest(digest);
    return this.#contains();
  }

  /** Any text, by its hash. */
  addKey(key: string): void {
    this.#readKey(key);
    this.#insert();
  }

  hasKey(key: string): boolean {
    this.#readKey(key);
    return this.#contains();
  }

  #readDigest(digest: Digest): void {
    const at = digest.indexOf(":") + 1;
    for (let lane = 0; lane < LANES; lane++) {
      this.#value[lane] = parseInt(digest.slice(at + lane * 8, at + lane * 8 + 8), 16);
    }
  }

  #readKey(key: string): void {
    const hash = createHash("sha256").update(key).digest();
    for (let lane = 0; lane < LANES; lane++) this.#value[lane] = hash.readUInt32LE(lane * 4);
  }

  /** Offset of the value, or of the empty place where it belongs. */
  #find([a, b, c, d]: Uint32Array): number {
    const table = this.#table;
    for (let place = (a ^ c) & this.#mask;; place = place + 1 & this.#mask) {
      const at = place * LANES;
      const empty = (table[at] | table[at + 1] | table[at + 2] | table[at + 3]) === 0;
      if (
        empty ||
        table[at] === a && table[at + 1] === b && table[at + 2] === c && table[at + 3] === d
      ) return at;
    }
  }

  #isZero(): boolean {
    return this.#value.every((lane) => lane === 0);
  }

  #contains(): boolean {
    if (this.#isZero()) return this.#zero;
    const at = this.#find(this.#value);
    return this.#table.subarray(at, at + LANES).some((lane) => lane !== 0);
  }

  #insert(): void {
    if (this.#isZero()) {
      this.#zero = true;
      return;
    }
    const at = this.#find(this.#value);
    if (this.#table.subarray(at, at + LANES).some((lane) => lane !== 0)) return;
    this.#table.set(this.#value, at);
    if (++this.#size * 2 > this.#mask) this.#grow();
  }

  #grow(): void {
    const old = this.#table;
    this.#table = new Uint32Array(old.length * 2);
    this.#mask = this.#mask * 2 + 1;
    for (let at = 0; at < old.length; at += LANES) {
      const value = old.subarray(at, at + LANES);
      if (value.some((lane) => lane !== 0)) this.#table.set(value, this.#find(value));
    }
  }
}
