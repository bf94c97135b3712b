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
 * | `same` | from the caller: a line {@linkcode Same} |
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
export const ATTACH_VERSION = 1;

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
  /** `digest`: sha256 in hex over the lines of a listing without its end, as they were last. */
  | { service: "same"; export: string; digest: string }
  | { service: "files"; export: string }
  | { service: "9p" }
  | { service: "tar" }
  | { service: "secret"; id: string }
  | { service: "ssh"; id: string };

/** Path, kind, permission bits, bytes, milliseconds since 1970, stamp, and where a link leads. */
export type ListedEntry = [
  path: string,
  kind: "f" | "d" | "l",
  mode: number,
  size: number,
  mtime: number,
  stamp: string,
  link?: string,
];

/** Path, and the bytes that are wanted of it. */
export type WantedFile = [path: string, size: number];

/** Files and their bytes in one question of `files`, at most; bytes in front of each answer. */
export const BULK = { files: 256, bytes: 1 << 20, header: 8 } as const;
export const FILE_FAILED = 0xffffffff;

export type ListEnd = { end: number } | { error: Problem };

/** Whether the listing still is what it was; where it is not, `list` is asked next. */
export interface Same {
  same: boolean;
}

export interface Found {
  found: boolean;
  error?: Problem;
}
