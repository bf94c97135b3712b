/**
 * Changes of a hosts file whose readers see whole lines only, however slowly they read: no byte of a line that
 * stays is written. New lines are appended, and a line that goes becomes a comment by its first byte. Comments of
 * earlier changes become empty lines: whoever began to read one of them reads a comment.
 */

import { Buffer } from "node:buffer";

export interface Piece {
  /** Byte at which the text is written. */
  at: number;
  text: string;
}

/** Bytes of lines that are gone, above which the file is written anew. */
const MOST_GONE = 4096;

/**
 * The pieces to write one after the other into a file that holds `current`, so that its lines are those of
 * `wanted`; undefined: it has to be written as a whole. Lines of names need no order.
 */
export function amendedHosts(current: string, wanted: string): Piece[] | undefined {
  const missing = new Map<string, number>();
  for (const line of wanted.split("\n").filter(Boolean)) {
    missing.set(line, (missing.get(line) ?? 0) + 1);
  }
  if (!current.endsWith("\n")) return undefined;
  const gone: Piece[] = [];
  let [at, dead] = [0, 0];
  for (const line of current.slice(0, -1).split("\n")) {
    const size = Buffer.byteLength(line) + 1;
    const count = missing.get(line) ?? 0;
    if (count > 1) missing.set(line, count - 1);
    else if (count === 1) missing.delete(line);
    else {
      dead += size;
      if (line !== "") gone.push({ at, text: line.startsWith("#") ? "\n".repeat(size) : "#" });
    }
    at += size;
  }
  if (dead > MOST_GONE) return undefined;
  const lines = [...missing].flatMap(([line, count]) => Array<string>(count).fill(`${line}\n`));
  return [...(lines.length > 0 ? [{ at, text: lines.join("") }] : []), ...gone];
}
