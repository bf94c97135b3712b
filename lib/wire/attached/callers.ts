/** The callers of deploy sessions, at whom the server opens streams: for files, credentials, connections. */
import type { YamuxStream } from "../yamux/stream.ts";
import type { Kind } from "./kinds.ts";
import type { Fields } from "./session.ts";

/** One session's caller, over all of its connections. */
export interface SessionCaller {
  /**
   * Opens a stream. While the connection is lost it waits until the session is resumed. Throws `unsupported` where
   * the caller does not take that kind, `unavailable` once the session has ended, or the signal's reason. The
   * stream ends with its connection.
   */
  open(kind: Kind, fields?: Fields, options?: { signal?: AbortSignal }): Promise<YamuxStream>;
  /** Ends the session with the error: something that its deployment cannot do without is gone. */
  fail(error: Error): void;
  /** Aborts when the session has ended and its deployment is removed. */
  readonly ended: AbortSignal;
}

export interface SessionCallers {
  /** The caller of the session that a deployment belongs to; undefined: the deployment has no session. */
  of(deployment: string): SessionCaller | undefined;
}
