/** Inputs of a build besides its context: secrets, SSH agents and named contexts. */
import type { Tree } from "./context/tree.ts";

/** Values for `RUN --mount=type=secret`. Only the step sees them: no layer, no cache key and no log. */
export interface SecretSource {
  /** The secret's bytes; undefined where there is no secret of that id. Called when a step needs it. */
  get(id: string, signal: AbortSignal): Promise<Uint8Array | undefined>;
}

/** One connection to an SSH agent; disposing closes both directions. */
export interface AgentConnection extends AsyncDisposable {
  readable: ReadableStream<Uint8Array>;
  writable: WritableStream<Uint8Array>;
}

/** Agents for `RUN --mount=type=ssh` and for git repositories over SSH. */
export interface AgentSource {
  /** True where {@linkcode connect} can reach an agent of that id; the usual id is "default". */
  has(id: string): boolean;
  /** Opens a connection to the agent; the engine opens one for each connection of a step's process. */
  connect(id: string, signal: AbortSignal): Promise<AgentConnection>;
}

/** A tree that does not change until it is disposed of. */
export type OpenTree = Tree & AsyncDisposable;

/** What `--build-context NAME=…` puts in place of a stage or an image of that name. */
export type NamedContext =
  /** `docker-image://NAME` */
  | { kind: "image"; name: string }
  /** A git repository, or a tar archive or file behind a URL; see `parseGitUrl` for its fragments. */
  | { kind: "url"; url: string }
  /** A tar archive: plain, gzip or zstd. Read once as a whole, and only if the build needs it. */
  | { kind: "tar"; stream: ReadableStream<Uint8Array> }
  /** A folder that exists already, its .dockerignore applied. Opened only if the build needs it. */
  | { kind: "tree"; open(signal: AbortSignal): Promise<OpenTree> };
