/** A context that stays with the caller: its listing comes first, contents only where a step needs them. */
import type { ListingPart, SameParts } from "../../api/build_session.ts";

export interface RemoteEntry {
  /** Relative, without "." and "..". */
  path: string;
  type: "file" | "directory" | "symlink";
  /** Permission bits. */
  mode: number;
  /** Bytes of a file, as listed: what it has more of is not read. */
  size: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
  /** The same as long as nobody wrote to the file; only compared for equality. */
  stamp: string;
  /** Where a symlink leads; of a file, the path of one before it that is the same file. */
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
  /**
   * As `entries`, but where one of these parts of the last listing ({@linkcode Listing}) still is what it
   * was, that alone is said. Throws `upstream_failed` where the caller cannot tell; absent: nobody can.
   */
  changes?(
    parts: readonly ListingPart[],
    signal: AbortSignal,
  ): AsyncIterable<readonly (RemoteEntry | SameParts)[]>;
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
