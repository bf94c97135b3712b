/** What a build may take besides its context: secrets, SSH agents and named contexts. */
import type { Tree } from "./context/tree.ts";

/** Values for `RUN --mount=type=secret`. They reach the step alone: no layer, no key, no log. */
export interface SecretSource {
  /** The secret's bytes; undefined where there is none of that id. Asked when a step needs it. */
  get(id: string, signal: AbortSignal): Promise<Uint8Array | undefined>;
}

/** One connection to an SSH agent; disposing closes both directions. */
export interface AgentConnection extends AsyncDisposable {
  readable: ReadableStream<Uint8Array>;
  writable: WritableStream<Uint8Array>;
}

/** Agents for `RUN --mount=type=ssh` and for git repositories over SSH. */
export interface AgentSource {
  /** True where {@linkcode connect} can reach an agent of that id; "default" is the usual one. */
  has(id: string): boolean;
  /** A new connection; the engine makes one for each that a process of a step opens. */
  connect(id: string, signal: AbortSignal): Promise<AgentConnection>;
}

/** A tree that stays as it is until it is disposed of. */
export type OpenTree = Tree & AsyncDisposable;

/** What `--build-context NAME=…` puts in place of a stage or an image of that name. */
export type NamedContext =
  /** `docker-image://NAME` */
  | { kind: "image"; name: string }
  /** A git repository, or a tar archive or file behind a URL; see `parseGitUrl` for its fragments. */
  | { kind: "url"; url: string }
  /** A tar archive: plain, gzip or zstd. Read once, whole, and only where the build needs it. */
  | { kind: "tar"; stream: ReadableStream<Uint8Array> }
  /** A folder that is there already, its .dockerignore applied. Opened where the build needs it. */
  | { kind: "tree"; open(signal: AbortSignal): Promise<OpenTree> };
