/** Listings of an exported folder as they cross the wire (lib/api/build_session.ts): whole, or what changed. */
import type { ListedEntry, ListingPart, SameParts } from "../api/build_session.ts";
import { SvcError } from "../base/errors.ts";
import { sha256 } from "../base/hash.ts";

/** Characters that are sent at one go. */
const BATCH = 64 * 1024;
/** A part that is longer than this is none of the server's: its own are much shorter. */
const MAX_PART = 256 * 1024;

export interface SomeLines {
  text: string;
  count: number;
}

/** All entries, up to about {@linkcode BATCH} characters of them at a time. */
export async function* listingLines(
  entries: AsyncIterable<readonly ListedEntry[]>,
): AsyncGenerator<SomeLines> {
  let text = "";
  let count = 0;
  for await (const some of entries) {
    for (const entry of some) text += JSON.stringify(entry) + "\n";
    count += some.length;
    if (text.length < BATCH) continue;
    yield { text, count };
    text = "";
    count = 0;
  }
  if (count > 0) yield { text, count };
}

/** Items that are kept until somebody reads them, at most. */
const AHEAD = 5000;

/** Begins to read at once, a little ahead of who reads it; read it once. */
export class Ahead<T> implements AsyncIterable<T> {
  #items: T[] = [];
  #end: { error?: unknown } | undefined;
  #came = Promise.withResolvers<void>();
  #taken = Promise.withResolvers<void>();

  constructor(items: AsyncIterable<T>) {
    this.#read(items).then(() => ({}), (error) => ({ error })).then((end) => {
      this.#end = end;
      this.#came.resolve();
    });
  }

  async #read(items: AsyncIterable<T>): Promise<void> {
    for await (const item of items) {
      this.#items.push(item);
      this.#came.resolve();
      if (this.#items.length >= AHEAD) await this.#taken.promise;
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    while (true) {
      const items = this.#items.splice(0);
      this.#came = Promise.withResolvers();
      this.#taken.resolve();
      this.#taken = Promise.withResolvers();
      yield* items;
      if (this.#items.length > 0) continue;
      if (this.#end && "error" in this.#end) throw this.#end.error;
      if (this.#end) return;
      await this.#came.promise;
    }
  }
}

interface Piece extends SomeLines {
  /** The server's part that begins like it, and whether it is the same. */
  part?: number;
  same?: Promise<boolean>;
}

/** Digests are made while the folder is still looked at. */
async function piecesOf(
  entries: AsyncIterable<readonly ListedEntry[]>,
  parts: readonly ListingPart[],
): Promise<Piece[]> {
  const begins = new Map(parts.map(([path], number) => [path, number]));
  const pieces: Piece[] = [];
  let piece: Piece = { text: "", count: 0 };
  const finish = () => {
    const { text, part } = piece;
    if (part !== undefined && text.length <= MAX_PART) {
      piece.same = sha256(text).then((digest) => digest === parts[part][1]);
    }
    if (piece.count > 0) pieces.push(piece);
  };
  for await (const some of entries) {
    for (const entry of some) {
      const part = begins.get(entry[0]);
      if (part !== undefined) {
        finish();
        piece = { text: "", count: 0, part };
      }
      piece.text += JSON.stringify(entry) + "\n";
      piece.count++;
    }
  }
  finish();
  return pieces;
}

const isPart = (part: unknown) =>
  Array.isArray(part) && typeof part[0] === "string" && typeof part[1] === "string";

/** As {@linkcode listingLines}, but a line for the parts that are as they were, as many as stand in a row. */
export async function* changedLines(
  entries: AsyncIterable<readonly ListedEntry[]>,
  parts: readonly ListingPart[],
): AsyncGenerator<SomeLines> {
  if (!Array.isArray(parts) || !parts.every(isPart)) {
    throw new SvcError("argument_invalid", "Cannot list: what the server asks is not readable");
  }
  let lines: SomeLines = { text: "", count: 0 };
  let same: SameParts["same"] | undefined;
  const tellSame = () => {
    if (!same) return;
    lines.text += JSON.stringify({ same } satisfies SameParts) + "\n";
    lines.count++;
    same = undefined;
  };
  for (const piece of await piecesOf(entries, parts)) {
    const { part } = piece;
    if (part !== undefined && await piece.same) {
      if (same && same[0] + same[1] === part) same[1]++;
      else {
        tellSame();
        same = [part, 1];
      }
      continue;
    }
    tellSame();
    lines.text += piece.text;
    lines.count += piece.count;
    if (lines.text.length < BATCH) continue;
    yield lines;
    lines = { text: "", count: 0 };
  }
  tellSame();
  if (lines.count > 0) yield lines;
}
