/**
 * Request bodies that are still on their connection. A store that can take bytes from a socket itself, in
 * a thread of its own, asks for the connection instead of reading the stream.
 */

/** A connection whose next bytes are a body, lent until {@linkcode RawSource.end}. */
export interface RawSource {
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

/** Undefined where reading the stream has begun, or the body is small. */
export type TakeRaw = () => RawSource | undefined;

const known = new WeakMap<ReadableStream<Uint8Array>, TakeRaw>();

/** Registers the connection behind `stream`. */
export function setRawBody(stream: ReadableStream<Uint8Array>, take: TakeRaw | undefined): void {
  if (take) known.set(stream, take);
}

/** The function that takes the connection; after a successful call, `stream` must not be read. */
export function rawBodyOf(stream: ReadableStream<Uint8Array>): TakeRaw | undefined {
  return known.get(stream);
}
