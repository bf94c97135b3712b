/** A context that stays with the caller: the listing comes first, contents only when a step needs them. */
import type { ListingPart, SameParts } from "../../api/build_session.ts";
import type { OpenFile } from "../../wire/files/node.ts";

export interface RemoteEntry {
  /** Relative, without "." and "..". */
  path: string;
  type: "file" | "directory" | "symlink";
  /** Permission bits. */
  mode: number;
  /** Bytes of a file, as listed; bytes beyond that are not read. */
  size: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
  /** Stays the same until somebody writes to the file; only compared for equality. */
  stamp: string;
  /** Target of a symlink; for a file with several names, the path of its first name. */
  link?: string;
}

export interface RemoteTree {
  /**
   * Stays the same for a folder of one caller from build to build, and differs between callers. Kept contents
   * of the same identity are not sent again.
   */
  identity: string;
  /**
   * Like `entries`, but parts of the last listing ({@linkcode Listing}) that are unchanged are only named.
   * Throws `upstream_failed` where the caller cannot tell; absent where the caller does not offer it.
   */
  changes?(
    parts: readonly ListingPart[],
    signal: AbortSignal,
  ): AsyncIterable<readonly (RemoteEntry | SameParts)[]>;
  /** All entries that .dockerignore leaves in, in batches; a folder comes before its contents. */
  entries(signal: AbortSignal): AsyncIterable<readonly RemoteEntry[]>;
  /** Bytes of a file; fewer than `size` where it became shorter. */
  read(path: string, size: number, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /**
   * Contents of files of at most {@linkcode MAX_BULK_FILE} bytes, in the order of `files` and in batches. A
   * file that changed since the listing has fewer bytes, or one byte more.
   */
  readMany?(
    files: readonly RemoteEntry[],
    signal: AbortSignal,
  ): AsyncIterable<readonly Uint8Array[]>;
  /** RUN mounts the tree without fetching it first (SVC_LAZY_BUILD). */
  lazy: boolean;
  /** Opens a file for lazy reading; throws where it changed since the listing. Absent: no lazy reading. */
  open?(entry: RemoteEntry, signal: AbortSignal): Promise<OpenFile>;
}

/** The context of a build that stays with the caller. */
export interface RemoteContext {
  tree: RemoteTree;
  /** Text of the Dockerfile; undefined where it is missing. */
  dockerfile?: string;
  /** Text of the rules that the caller has applied. */
  ignore: string;
  /** Bytes received so far, of any kind. */
  received: () => number;
}

/** Largest file, in bytes, that is fetched together with others. */
export const MAX_BULK_FILE = 64 * 1024;
