/** What a request's body may offer beside its bytes. */

/** A connection whose next bytes are a body, lent until {@linkcode LentConnection.end}. */
export interface LentConnection {
  /** A non-blocking socket; nothing else reads from it meanwhile. */
  readonly descriptor: number;
  /** Bytes that came together with the request's head: the start of the body, in its framing. */
  readonly prefix: Uint8Array;
  /** Bytes of the body; undefined: it comes in chunks (RFC 9112 7.1). */
  readonly length: number | undefined;
  /** Tells the listener how many bytes of the body came; this keeps a slow connection alive. */
  moved(bytes: number): void;
  /**
   * Gives the connection back. `rest`: bytes that were read after the body's end; undefined: the body was not
   * read to its end.
   */
  end(rest: Uint8Array | undefined): void;
}

/** A body that is read as a stream, or taken from its connection by who can do that in a thread of its own. */
export interface RequestBody extends ReadableStream<Uint8Array> {
  /**
   * Lends the connection; the stream must not be read after that. Undefined where reading has begun, or the
   * connection has gone. Absent where the body cannot be taken, or is too small for it.
   */
  takeOver?(): LentConnection | undefined;
}
