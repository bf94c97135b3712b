/**
 * `GET /.svc/v1/build/attach`: a build whose inputs stay with the caller. A WebSocket carries yamux; the
 * caller is its client.
 *
 * Stream 1 is the caller's: one line of JSON, {@linkcode AttachRequest}; back come the lines of
 * `POST /build`, the last one `result` or `error`. When the caller ends the stream or the connection, the
 * build is cancelled. Every other stream is the server's, and begins with one line, {@linkcode Ask}:
 *
 * | service | what follows |
 * |---|---|
 * | `list` | from the caller: a line {@linkcode ListedEntry} for each entry, then {@linkcode ListEnd} |
 * | `changes` | from the caller: as for `list`, with a line {@linkcode SameParts} in the place of what is as it was |
 * | `files` | from the server: lines, each an array of {@linkcode WantedFile}; from the caller: frames |
 * | `9p` | 9P2000.L, the caller the server, `aname` the export; answered in the order of the requests |
 * | `tar` | from the caller: the archive that is the context |
 * | `secret` | from the caller: a line {@linkcode Found}, then the secret |
 * | `ssh` | from the caller: a line {@linkcode Found}; then the agent's protocol, both ways |
 *
 * A frame of `files` is one file, in the order of the questions: its number on this stream, from 0, and the
 * bytes that follow, both 32 bits, most significant first. A file that became longer comes with one byte
 * more than was wanted, a shorter one with what it has. {@linkcode FILE_FAILED} in place of the bytes:
 * Linux's number of the error follows, in 32 bits.
 */
import type { Logins } from "./build_logins.ts";
import type { Problem } from "./problem.ts";

export const ATTACH_PATH = "/build/attach";

/** Of this protocol; the server refuses others. */
export const ATTACH_VERSION = 2;

/** A folder of the caller's. */
export interface FolderExport {
  /**
   * The same for the same folder from build to build. The server keeps the identities of one user apart
   * from those of others.
   */
  identity: string;
  /** Contents are to be read only when something reads them. */
  lazy?: boolean;
}

export interface AttachRequest {
  version: number;
  /** The query of `POST /build`. */
  query: string;
  context:
    | FolderExport & {
      kind: "folder";
      /** Text of the Dockerfile. */
      dockerfile: string;
      /** The rules that the caller has applied. */
      ignore: string;
    }
    | { kind: "tar" };
  /** Folders by the name of the context that they are. */
  contexts?: Record<string, FolderExport>;
  /** Identifiers of secrets and agents that the caller has. */
  secrets?: string[];
  ssh?: string[];
  /** At registries that the build names. */
  logins?: Logins;
}

/** Export of the build context; that of a named one is `context:NAME`. */
export const CONTEXT_EXPORT = "context";
export const namedExport = (name: string): string => `${CONTEXT_EXPORT}:${name}`;

export type Ask =
  | { service: "list"; export: string }
  /** `parts`: of the last listing, in their order. A caller that knows no parts resets the stream. */
  | { service: "changes"; export: string; parts: readonly ListingPart[] }
  | { service: "files"; export: string }
  | { service: "9p" }
  | { service: "tar" }
  | { service: "secret"; id: string }
  | { service: "ssh"; id: string };

/**
 * Path, kind, permission bits, bytes, seconds since 1970 and the nanoseconds above them, stamp; of a link
 * where it leads, of a file the path of one before it that is the same file (a hard link).
 */
export type ListedEntry = [
  path: string,
  kind: "f" | "d" | "l",
  mode: number,
  size: number,
  mtime: number,
  mtimeNs: number,
  stamp: string,
  link?: string,
];

/**
 * Some lines of a listing in a row: the path of the first one, and sha256 in hex over all of them, line ends
 * too. Of the caller's new listing a part goes from the line with that path to the next one that begins a
 * part, or the end.
 */
export type ListingPart = [path: string, digest: string];

/** `count` parts from number `first` on (from 0) come here, as they were. */
export interface SameParts {
  same: [first: number, count: number];
}

/** Path, and the bytes that are wanted of it. */
export type WantedFile = [path: string, size: number];

/** Files and their bytes in one question of `files`, at most; bytes in front of each answer. */
export const BULK = { files: 256, bytes: 1 << 20, header: 8 } as const;
export const FILE_FAILED = 0xffffffff;

/** `end`: lines before it. */
export type ListEnd = { end: number } | { error: Problem };

export interface Found {
  found: boolean;
  error?: Problem;
}
