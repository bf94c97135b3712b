/** One request of the Docker API, and what is answered. */
import type { Socket } from "node:net";
import type { Duplex } from "../wire/duplex.ts";
import type { Bodies } from "./bodies.ts";

/** What a handler answers; absent `status`: 200. */
export interface Answer {
  status?: number;
  headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as plain text. */
  text?: string;
  /**
   * Sent as it comes, its head at once. What it throws cuts the connection off: a stream that can tell its failure
   * itself does so.
   */
  stream?: AsyncIterable<Uint8Array | string>;
}

export interface Taking {
  /** Of what comes from here, as docker's clients expect it. */
  type: "application/vnd.docker.raw-stream" | "application/vnd.docker.multiplexed-stream";
}

/** One request. */
export interface Call {
  readonly method: string;
  /** Without the version. */
  readonly path: string;
  /** "1.41": the version in the path, else the newest. */
  readonly version: string;
  readonly query: URLSearchParams;
  /** The names in braces of the route's path, decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** The first value of a header, by its lower-case name. */
  header(name: string): string | undefined;
  /** All values of a header, by its lower-case name. */
  headers(name: string): string[];
  /** True for "1", "true", "True", "t". Absent: `otherwise`. */
  flag(name: string, otherwise?: boolean): boolean;
  /** The parameter `filters`: lists of values by their names. Throws `argument_invalid`. */
  filters(): ReadonlyMap<string, readonly string[]>;
  /** The request's body. May be read once. */
  body(): AsyncIterable<Uint8Array>;
  /** The body, which has that form; an empty one has no members. Throws `argument_invalid`, `too_large`. */
  json<N extends keyof Bodies>(form: N): Promise<Bodies[N]>;
  /** Aborts when the client has gone, or svc ends. */
  readonly signal: AbortSignal;
  /** The protocol that the client asks the connection to be upgraded to: "tcp", "h2c". */
  readonly upgrade?: string;
  /**
   * Takes the connection over: the head of the answer is sent (101 where an upgrade was asked for), and what
   * follows is the handler's. The body must have been read. The handler resolves when it is done with it, and its
   * answer is not used.
   */
  take(taking?: Taking): Promise<Duplex>;
  /** The same as the bare socket, of a request with an upgrade. */
  takeSocket(): Socket;
}
