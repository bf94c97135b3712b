/** A context that stays with the caller: its listing comes first, contents only where a step needs them. */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { SvcError } from "../../base/errors.ts";
import { MAX_DEPTH } from "./extract.ts";

export interface RemoteEntry {
  /** Relative, without "." and "..". */
  path: string;
  type: "file" | "directory" | "symlink";
  /** Permission bits. */
  mode: number;
  /** Bytes of a file, as listed: what it has more of is not read. */
  size: number;
  /** Milliseconds since 1970. */
  mtime: number;
  /** The same as long as nobody wrote to the file; only compared for equality. */
  stamp: string;
  /** Where a symlink leads. */
  link?: string;
}

/** A file of a caller's that is read in parts. */
export interface RemoteFile {
  /** Fewer bytes than asked for only at the end. */
  read(offset: number, count: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

export interface RemoteTree {
  /**
   * The same for the same folder of the same caller from build to build, and never that of another
   * caller: what is kept of it is not sent again.
   */
  identity: string;
  /** True where the listing still has this digest ({@linkcode listingHash}); absent: nobody knows. */
  unchanged?(digest: string, signal: AbortSignal): Promise<boolean>;
  /** Everything that .dockerignore leaves, folders before what is in them, some at a time. */
  entries(signal: AbortSignal): AsyncIterable<readonly RemoteEntry[]>;
  /** Bytes of a file; fewer than `size` where it became shorter. */
  read(path: string, size: number, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Contents of files of at most {@linkcode MAX_BULK_FILE} bytes, all of them, in the order of `files`,
   * some at a time. One that is no longer what was listed has fewer bytes, or one more.
   */
  readMany?(
    files: readonly RemoteEntry[],
    signal: AbortSignal,
  ): AsyncIterable<readonly Uint8Array[]>;
  /** What RUN mounts is read when it is used, not before (SVC_LAZY_BUILD). */
  lazy: boolean;
  /** Opens a file that still is what was listed; throws where it is not. Absent: there is no lazy reading. */
  open?(entry: RemoteEntry, signal: AbortSignal): Promise<RemoteFile>;
}

/** The context of a build that stays with the caller. */
export interface RemoteContext {
  tree: RemoteTree;
  /** Text of the Dockerfile; undefined where it is missing. */
  dockerfile?: string;
  /** Text of the rules that the caller has applied. */
  ignore: string;
  /** Bytes that came over the wire so far, for whatever reason. */
  received: () => number;
}

/** Bytes of a file that is read together with others, at most. */
export const MAX_BULK_FILE = 64 * 1024;

/** Entries of one listing, and bytes of a path or link, at most. */
export const MAX_ENTRIES = 1_000_000;
const MAX_PATH = 4096;

/** Characters of a listing that are hashed at once. */
const GATHERED = 64 * 1024;

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

/** Gathers the digest of a listing as it crosses the wire: the same on both sides. */
export function listingHash() {
  const hash = createHash("sha256");
  let text = "";
  return {
    add({ path, type, mode, size, mtime, stamp, link }: RemoteEntry): void {
      const kind = type === "symlink" ? "l" : type[0];
      const fields = [path, kind, mode, size, mtime, stamp, ...link === undefined ? [] : [link]];
      text += JSON.stringify(fields) + "\n";
      if (text.length < GATHERED) return;
      hash.update(text);
      text = "";
    },
    digest: () => hash.update(text).digest("hex"),
  };
}

function checked(entry: RemoteEntry, found: ReadonlyMap<string, RemoteEntry>): RemoteEntry {
  const { path, type, mode, size, mtime, stamp, link } = entry;
  const shown = () => JSON.stringify(path);
  if (typeof path !== "string" || !isPath(path)) throw invalid(`${shown()} is no path inside it`);
  if (found.has(path)) throw invalid(`${shown()} is listed twice`);
  if (found.size >= MAX_ENTRIES) throw invalid(`it has more than ${MAX_ENTRIES} entries`);
  const slash = path.lastIndexOf("/");
  if (slash >= 0 && found.get(path.slice(0, slash))?.type !== "directory") {
    throw invalid(`${shown()} is listed without its folder`);
  }
  const typed = type === "file" || type === "directory" ||
    type === "symlink" && typeof link === "string" && link !== "" && link.length <= MAX_PATH &&
      !link.includes("\0");
  if (!typed || !whole(size) || !whole(mode) || !Number.isFinite(mtime)) {
    throw invalid(`what is said of ${shown()} makes no sense`);
  }
  if (typeof stamp !== "string") throw invalid(`${shown()} has no stamp`);
  return { path, type, mode: mode & 0o7777, size, mtime, stamp, ...link && { link } };
}

/**
 * The listing by path, and its digest. Throws `context_invalid` for one that is no tree: names that lead out, entries
 * twice or without their folder, more than anyone has.
 */
export async function readListing(
  entries: AsyncIterable<readonly RemoteEntry[]>,
  signal: AbortSignal,
): Promise<{ listing: Map<string, RemoteEntry>; digest: string }> {
  const found = new Map<string, RemoteEntry>();
  const hash = listingHash();
  for await (const some of entries) {
    signal.throwIfAborted();
    for (const entry of some) {
      found.set(entry.path, checked(entry, found));
      hash.add(entry);
    }
  }
  return { listing: found, digest: hash.digest() };
}
