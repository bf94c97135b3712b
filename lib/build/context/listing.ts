/**
 * The listing of a caller's folder, as it is read and kept. What the caller sends is checked here and nowhere
 * else.
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import type { ListingPart, SameParts } from "../../api/build_session.ts";
import { SvcError } from "../../base/errors.ts";
import { MAX_DEPTH } from "./extract.ts";
import type { RemoteEntry } from "./remote.ts";

/** Most entries of a listing, and most bytes of a path or link. */
const MAX_ENTRIES = 1_000_000;
const MAX_PATH = 4096;

/**
 * Characters after which a part of a listing ends. A part is sent again when one entry in it changes; more
 * parts make a longer request for changes.
 */
const PART = 16 * 1024;

/** Consecutive entries of a kept listing. */
export interface KeptPart {
  /** The first entry's path, and the digest of the entries as they are sent. */
  is: ListingPart;
  /** Number of entries. */
  count: number;
}

export interface Listing<E extends RemoteEntry = RemoteEntry> {
  /** By path, in the order of the listing. */
  entries: ReadonlyMap<string, E>;
  /** All entries, in parts. */
  parts: readonly KeptPart[];
}

const invalid = (what: string) =>
  new SvcError("context_invalid", `Cannot read the build context: ${what}`, {
    help: "build with a client of the server's own version",
  });

const whole = (value: unknown): value is number =>
  Number.isSafeInteger(value) && value as number >= 0;

/**
 * Matches a path with an empty component, "." or "..", with a component of over 255 characters, or with a
 * NUL.
 */
const NO_PATH = /(?:^|\/)\.{0,2}(?:\/|$)|[^/]{256}|\0/;

function isPath(path: string): boolean {
  if (path.length > MAX_PATH || NO_PATH.test(path)) return false;
  let depth = 0;
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) depth++;
  return depth < MAX_DEPTH &&
    (path.length <= 85 || path.split("/").every((part) => Buffer.byteLength(part) <= 255));
}

function checked(entry: RemoteEntry): RemoteEntry {
  const { path, type, mode, size, mtime, mtimeNs, stamp, link } = entry;
  const shown = () => JSON.stringify(path);
  if (typeof path !== "string" || !isPath(path)) {
    throw invalid(`${shown()} is not a path inside it`);
  }
  const linked = typeof link === "string" && link !== "" && link.length <= MAX_PATH &&
    !link.includes("\0");
  const typed = type === "symlink" ? linked : link === undefined && type === "directory" ||
    (link === undefined || linked) && type === "file";
  const timed = Number.isSafeInteger(mtime) && whole(mtimeNs) && mtimeNs < 1e9;
  if (!typed || !timed || !whole(size) || !whole(mode)) {
    throw invalid(`what is said of ${shown()} makes no sense`);
  }
  if (typeof stamp !== "string") throw invalid(`${shown()} has no stamp`);
  return { path, type, mode: mode & 0o7777, size, mtime, mtimeNs, stamp, ...link && { link } };
}

/** One entry as a line of text; client and server make the same line. */
function lineOf({ path, type, mode, size, mtime, mtimeNs, stamp, link }: RemoteEntry): string {
  const kind = type === "symlink" ? "l" : type[0];
  const fields = [path, kind, mode, size, mtime, mtimeNs, stamp];
  if (link !== undefined) fields.push(link);
  return JSON.stringify(fields) + "\n";
}

/** A listing while it is read. Kept entries are checked again, because the entries around them may be new. */
class Reading {
  found = new Map<string, RemoteEntry>();
  parts: KeptPart[] = [];
  #text = "";
  #begins = "";
  #count = 0;

  /** Adds an entry that the caller sent. */
  add(entry: RemoteEntry): void {
    this.place(checked(entry));
    if (this.#count++ === 0) this.#begins = entry.path;
    this.#text += lineOf(entry);
    if (this.#text.length >= PART) this.cut();
  }

  place(entry: RemoteEntry): void {
    const { path } = entry;
    const shown = () => JSON.stringify(path);
    if (this.found.has(path)) throw invalid(`${shown()} is listed twice`);
    if (this.found.size >= MAX_ENTRIES) throw invalid(`it has more than ${MAX_ENTRIES} entries`);
    const slash = path.lastIndexOf("/");
    if (slash >= 0 && this.found.get(path.slice(0, slash))?.type !== "directory") {
      throw invalid(`${shown()} is listed without its folder`);
    }
    const first = entry.type === "file" && entry.link !== undefined
      ? this.found.get(entry.link)
      : entry;
    if (first?.type !== entry.type || first !== entry && first.link !== undefined) {
      throw invalid(`${shown()} is said to be a file that is not listed before it`);
    }
    this.found.set(path, entry);
  }

  /** Ends the current part. */
  cut(): void {
    if (this.#count === 0) return;
    const digest = createHash("sha256").update(this.#text).digest("hex");
    this.parts.push({ is: [this.#begins, digest], count: this.#count });
    this.#text = "";
    this.#count = 0;
  }
}

const isSame = (item: RemoteEntry | SameParts): item is SameParts => "same" in item;

/** Adds the kept parts that the caller says are unchanged. */
class Known {
  #parts: readonly KeptPart[];
  #entries: readonly RemoteEntry[];
  /** Index of each part's first entry. */
  #at: number[] = [];

  constructor({ parts, entries }: Listing) {
    this.#parts = parts;
    this.#entries = [...entries.values()];
    let at = 0;
    for (const { count } of parts) {
      this.#at.push(at);
      at += count;
    }
  }

  put([first, count]: SameParts["same"], reading: Reading): void {
    reading.cut();
    for (let number = first; number < first + count; number++) {
      const part = this.#parts[number];
      const at = this.#at[number];
      for (const entry of this.#entries.slice(at, at + part.count)) reading.place(entry);
      reading.parts.push(part);
    }
  }
}

/**
 * Reads a listing. `known` is the last listing, where the caller was asked only for changes; its unchanged
 * entries are taken over. Undefined where nothing changed. Throws `context_invalid` where the items are no
 * tree: names that lead out, duplicate entries, entries without their folder, or too many entries.
 */
export async function readListing(
  items: AsyncIterable<readonly (RemoteEntry | SameParts)[]>,
  signal: AbortSignal,
  known?: Listing,
): Promise<Listing | undefined> {
  const reading = new Reading();
  let kept: Known | undefined;
  /** The caller said that all parts are unchanged; nothing may follow. */
  let same = false;
  for await (const some of items) {
    signal.throwIfAborted();
    for (const item of some) {
      if (same) throw invalid("more is said of what is the same");
      if (!isSame(item)) {
        reading.add(item);
        continue;
      }
      const parts = known?.parts.length ?? 0;
      const [first, count] = Array.isArray(item.same) ? item.same : [];
      if (!whole(first) || !whole(count) || count === 0 || first + count > parts) {
        throw invalid("it names parts that nobody knows");
      }
      same = count === parts && reading.found.size === 0;
      if (!same) (kept ??= new Known(known!)).put([first, count], reading);
    }
  }
  if (same || known && known.parts.length === 0 && reading.found.size === 0) return undefined;
  reading.cut();
  return { entries: reading.found, parts: reading.parts };
}
