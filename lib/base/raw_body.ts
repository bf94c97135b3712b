/**
 * Request bodies that are still on their connection. A store that can take bytes from a socket itself, in
 * a thread of its own, asks for the connection instead of reading the stream.
 */

/** A connection whose next bytes are a body, lent until {@linkcode RawSource.end}. */
export interface RawSource {
  /** A socket that does not wait; nobody else reads from it meanwhile. */
  readonly descriptor: number;
  /** Bytes that came with the request's head: the body's first, in its framing. */
  readonly prefix: Uint8Array;
  /** Bytes of the body; undefined: it comes in chunks (RFC 9112 7.1). */
  readonly length: number | undefined;
  /** Tells the listener that so many bytes of the body came, which keeps a slow connection alive. */
  moved(bytes: number): void;
  /**
   * Gives the connection back. `rest`: what was read behind the body's end; undefined: the body was not
   * read to its end.
   */
  end(rest: Uint8Array | undefined): void;
}

/** Undefined where the stream has been read from, or the body is too small to be worth it. */
export type TakeRaw = () => RawSource | undefined;

const known = new WeakMap<ReadableStream<Uint8Array>, TakeRaw>();

/** Says that `stream` has a connection behind it. */
export function setRawBody(stream: ReadableStream<Uint8Array>, take: TakeRaw | undefined): void {
  if (take) known.set(stream, take);
}

/** What takes the connection instead of `stream`, which is not to be read then. */
export function rawBodyOf(stream: ReadableStream<Uint8Array>): TakeRaw | undefined {
  return known.get(stream);
}
