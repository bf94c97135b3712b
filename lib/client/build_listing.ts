/** Listings of an exported folder as they cross the wire (lib/api/build_session.ts): whole, or what changed. */
import type { ListedEntry, ListingPart, SameParts } from "../api/build_session.ts";
import { SvcError } from "../base/errors.ts";
import { sha256 } from "../base/hash.ts";

/** Characters that are sent at one go. */
const BATCH = 64 * 1024;
/** Characters of a part, at most: the server's own parts are much shorter, so a longer one cannot match. */
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

interface Piece extends SomeLines {
  /** The server's part that begins with the same path, and whether its content is the same. */
  part?: number;
  same?: Promise<boolean>;
}

/** Splits the listing at the server's parts; computes digests while the folder is still being listed. */
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

/** As {@linkcode listingLines}, but each run of unchanged parts is one line that says how many they are. */
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
