/**
 * `GET /.svc/v1/build/attach`: a build whose inputs stay with the caller, on an attached session
 * (lib/wire/attached/session.ts).
 *
 * The caller opens the stream `build`: one line of JSON, {@linkcode AttachRequest}; back come the lines of
 * `POST /build`, the last one `result` or `error`. When the caller ends the stream or the connection, the
 * build is cancelled. The server opens all other streams. What the kind's line has besides, and what follows:
 *
 * | kind | has | what follows |
 * |---|---|---|
 * | `list` | `export` | from the caller: a line {@linkcode ListedEntry} for each entry, then {@linkcode ListEnd} |
 * | `changes` | `export` | from the server: a line of {@linkcode ListingPart}s, those of the last listing in their order; from the caller: as for `list`, with a line {@linkcode SameParts} for each run of unchanged parts |
 * | `files` | `export` | from the server: lines, each an array of {@linkcode WantedFile}; from the caller: frames |
 * | `9p` | | 9P2000.L, the caller the server, `aname` the export; requests of one fid are done in their order |
 * | `tar` | | from the caller: the archive that is the context |
 * | `secret` | `id` | from the caller: a line {@linkcode Found}, then the secret |
 * | `ssh` | `id` | from the caller: a line {@linkcode Found}; then the agent's protocol, both ways |
 *
 * A frame of `files` is one file, in the order of the questions: its number on this stream, from 0, and the
 * bytes that follow, both 32 bits, most significant first. A file that became longer comes with one byte
 * more than was wanted, a shorter one with what it has. {@linkcode FILE_FAILED} in place of the bytes:
 * Linux's number of the error follows, in 32 bits.
 */
import type { Logins } from "./build_logins.ts";
import type { Problem } from "./problem.ts";

export const ATTACH_PATH = "/build/attach";

/** A folder that the caller exports. */
export interface FolderExport {
  /**
   * Stays the same for the same folder from build to build. The server separates the identities of different
   * users.
   */
  identity: string;
  /** True: file contents are fetched only when a step reads them. */
  lazy?: boolean;
}

export interface AttachRequest {
  /** The query of `POST /build`. */
  query: string;
  context:
    | FolderExport & {
      kind: "folder";
      /** Text of the Dockerfile. */
      dockerfile: string;
      /** Text of the ignore rules that the caller has applied. */
      ignore: string;
    }
    | { kind: "tar" };
  /** Folders by the name of the build context. */
  contexts?: Record<string, FolderExport>;
  /** Identifiers of secrets and agents that the caller has. */
  secrets?: string[];
  ssh?: string[];
  /** Logins for registries that the build names. */
  logins?: Logins;
}

/** Name of the build context's export; a named context's is `context:NAME`. */
export const CONTEXT_EXPORT = "context";
export const namedExport = (name: string): string => `${CONTEXT_EXPORT}:${name}`;

/**
 * Path, kind, permission bits, size in bytes, mtime (seconds since 1970 and nanoseconds), stamp. Then, for a
 * link, its target; for a hard link, the path of an earlier entry that is the same file.
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
 * A run of lines of a listing: the path of its first line, and the SHA-256 in hex of all its lines, newlines
 * included. In the caller's new listing a part runs from the line with that path to the line that begins
 * another part, or to the end.
 */
export type ListingPart = [path: string, digest: string];

/** The `count` parts from number `first` on (from 0) follow here unchanged. */
export interface SameParts {
  same: [first: number, count: number];
}

/** A path, and the number of bytes wanted. */
export type WantedFile = [path: string, size: number];

/** Limits of one request of `files`: files, and their bytes. `header`: bytes before each answer. */
export const BULK = { files: 256, bytes: 1 << 20, header: 8 } as const;
export const FILE_FAILED = 0xffffffff;

/** `end`: number of lines before this one. */
export type ListEnd = { end: number } | { error: Problem };

export interface Found {
  found: boolean;
  error?: Problem;
}
