/**
 * The listing of a caller's folder as it is read and kept: what the caller says of it is checked here, and
 * nowhere else.
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import type { ListingPart, SameParts } from "../../api/build_session.ts";
import { SvcError } from "../../base/errors.ts";
import { MAX_DEPTH } from "./extract.ts";
import type { RemoteEntry } from "./remote.ts";

/** Entries of one listing, and bytes of a path or link, at most. */
const MAX_ENTRIES = 1_000_000;
const MAX_PATH = 4096;

/** Characters after which a part ends: small enough to be sent for one change, too many make a long question. */
const PART = 16 * 1024;

/** Some entries in a row. */
export interface KeptPart {
  /** Where it begins, and the digest of its entries as they cross the wire. */
  is: ListingPart;
  /** Of its entries. */
  count: number;
}

export interface Listing<E extends RemoteEntry = RemoteEntry> {
  /** By path, in their order. */
  entries: ReadonlyMap<string, E>;
  /** All of them, in parts. */
  parts: readonly KeptPart[];
}

const invalid = (what: string) =>
  new SvcError("context_invalid", `Cannot read the build context: ${what}`, {
    help: "build with a client of the server's own version",
  });

const whole = (value: unknown): value is number =>
  Number.isSafeInteger(value) && value as number >= 0;

/** A part that is empty, "." or ".."; one of more than 255 characters; a NUL. */
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
  if (typeof path !== "string" || !isPath(path)) throw invalid(`${shown()} is no path inside it`);
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

/** The line of an entry: the same on both sides. */
function lineOf({ path, type, mode, size, mtime, mtimeNs, stamp, link }: RemoteEntry): string {
  const kind = type === "symlink" ? "l" : type[0];
  const fields = [path, kind, mode, size, mtime, mtimeNs, stamp];
  if (link !== undefined) fields.push(link);
  return JSON.stringify(fields) + "\n";
}

/** A listing as it grows; what was kept is looked at again in its new surroundings. */
class Reading {
  found = new Map<string, RemoteEntry>();
  parts: KeptPart[] = [];
  #text = "";
  #begins = "";
  #count = 0;

  /** An entry in a part of its own making. */
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

  /** What comes next is another part. */
  cut(): void {
    if (this.#count === 0) return;
    const digest = createHash("sha256").update(this.#text).digest("hex");
    this.parts.push({ is: [this.#begins, digest], count: this.#count });
    this.#text = "";
    this.#count = 0;
  }
}

const isSame = (item: RemoteEntry | SameParts): item is SameParts => "same" in item;

/** Puts the parts of `known` where the caller says they are. */
class Known {
  #parts: readonly KeptPart[];
  #entries: readonly RemoteEntry[];
  /** Number of each part's first entry. */
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
 * Reads a listing; `known` is the last one, where the caller was asked for what changed: its entries come
 * again as they are. Undefined where nothing changed. Throws `context_invalid` for what is no tree: names
 * that lead out, entries twice or without their folder, more than anyone has.
 */
export async function readListing(
  items: AsyncIterable<readonly (RemoteEntry | SameParts)[]>,
  signal: AbortSignal,
  known?: Listing,
): Promise<Listing | undefined> {
  const reading = new Reading();
  let kept: Known | undefined;
  /** Everything is as it was; nothing is to come after that. */
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
