/** What of a console is new, and what of it the workload itself has printed. */
import { Buffer } from "node:buffer";

/** Returns that Incus puts before a newline. */
const MOST_EXTRA = 2;

const [NEWLINE, RETURN] = [10, 13];

/** The bytes of a console that are not recorded yet. */
export function freshOf(console: Uint8Array, count: number, tail: Uint8Array): Uint8Array {
  const known = console.subarray(Math.max(0, count - tail.length), count);
  if (console.length >= count && Buffer.compare(known, tail) === 0) return console.subarray(count);
  // The first bytes have gone from it.
  const at = Buffer.from(console.buffer, console.byteOffset, console.length).lastIndexOf(tail);
  return console.subarray(at < 0 ? overlapOf(tail, console) : at + tail.length);
}

/**
 * How many of the first bytes of what came live are the last of what was read. One pass over both: a workload chooses
 * what it prints.
 */
export function overlapOf(read: Uint8Array, live: Uint8Array): number {
  // Of each beginning of `live`: how much of its own beginning it ends with.
  const borders = new Uint32Array(live.length + 1);
  const grown = (size: number, byte: number) => {
    while (size > 0 && (size === live.length || live[size] !== byte)) size = borders[size];
    return live[size] === byte ? size + 1 : 0;
  };
  for (let index = 1; index < live.length; index++) {
    borders[index + 1] = grown(borders[index], live[index]);
  }
  let size = 0;
  for (const byte of read.subarray(-live.length || read.length)) size = grown(size, byte);
  return size;
}

/**
 * The bytes of the console from those that come live: Incus passes these through terminals of its own, and each puts
 * a return before each newline.
 */
export class Live {
  /** How many returns too many; fewer where a newline has fewer. */
  #extra = MOST_EXTRA;
  /** Returns at the end, whose newline may come. */
  #returns = 0;

  take(bytes: Uint8Array): Uint8Array {
    const out = new Uint8Array(this.#returns + bytes.length);
    let size = 0;
    for (const byte of bytes) {
      if (byte === RETURN) {
        // More than can be too many are the workload's own.
        if (this.#returns > MOST_EXTRA) out[size++] = RETURN;
        else this.#returns++;
        continue;
      }
      if (byte === NEWLINE) {
        this.#extra = Math.max(0, Math.min(this.#extra, this.#returns - 1));
        this.#returns -= this.#extra;
      }
      for (; this.#returns > 0; this.#returns--) out[size++] = RETURN;
      out[size++] = byte;
    }
    return out.subarray(0, size);
  }
}
