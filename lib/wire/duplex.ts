/** A byte stream with two directions: a yamux stream, for instance. 9P and lines of JSON run on it. */
import { SvcError } from "../base/errors.ts";

export interface Duplex {
  /**
   * The next bytes, never empty; undefined when the other side has ended its direction. Throws where the stream
   * broke.
   */
  read(): Promise<Uint8Array | undefined>;
  /**
   * Resolves when there is room for more. The stream owns the bytes from the call on. Bytes of concurrent calls
   * are not mixed, and keep the order of the calls.
   */
  write(bytes: Uint8Array): Promise<void>;
  /** Ends this side's direction; the other direction stays open. Idempotent. */
  closeWrite(): Promise<void>;
  /**
   * Ends both directions at once; bytes in transit are lost. Idempotent. The other side is told `why` where the
   * stream can carry it.
   */
  reset(why?: unknown): void;
  /**
   * Absent where the stream cannot tell. Resolves when both directions have ended: with the error that broke
   * the stream if known, with undefined after a normal end.
   */
  readonly closed?: Promise<unknown>;
}

/** The bytes to read; cancelling resets the stream. */
export function readableOf(stream: Duplex): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const bytes = await stream.read();
      if (bytes) controller.enqueue(bytes);
      else controller.close();
    },
    cancel: () => stream.reset(),
  }, { highWaterMark: 0 });
}

/** Writes to the stream. Closing ends this direction only; aborting resets the stream. */
export function writableOf(stream: Duplex): WritableStream<Uint8Array> {
  return new WritableStream<Uint8Array>({
    write: (bytes) => stream.write(bytes),
    close: () => stream.closeWrite(),
    abort: () => stream.reset(),
  });
}

/** The stream with reads that were begun, or whose bytes are here already, before its own. */
export function ahead(
  stream: Duplex,
  ...reads: (Uint8Array | Promise<Uint8Array | undefined>)[]
): Duplex {
  const first = reads.filter((read) => !(read instanceof Uint8Array) || read.length > 0);
  return {
    read: () => first.length > 0 ? Promise.resolve(first.shift()) : stream.read(),
    write: (bytes) => stream.write(bytes),
    closeWrite: () => stream.closeWrite(),
    reset: (why) => stream.reset(why),
    closed: stream.closed,
  };
}

const READ_SIZE = 64 * 1024;

/** What a stream needs of a connection. */
export type ByteConn = Pick<Deno.Conn, "read" | "write" | "closeWrite" | "close">;

/**
 * A stream on a connection of the operating system. `conn.readable` and `conn.writable` are not used: closing
 * one of them closes the connection in both directions.
 */
export function connDuplex(conn: ByteConn): Duplex {
  let buffer = new Uint8Array(READ_SIZE);
  let last: Promise<void> = Promise.resolve();
  let ended = false;
  const writeAll = async (bytes: Uint8Array) => {
    if (ended) throw new SvcError("upstream_failed", "Cannot use the stream: its end was written");
    for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
  };
  const after = (work: () => Promise<void>): Promise<void> => {
    const done = last.then(work);
    last = done.catch(() => {/* the caller of that write was told */});
    return done;
  };
  return {
    async read() {
      const size = await conn.read(buffer);
      if (size === null) return undefined;
      const bytes = buffer.subarray(0, size);
      if (size < READ_SIZE / 4) return bytes.slice();
      // Too much to copy: the reader gets this buffer, and the next read a new one.
      buffer = new Uint8Array(READ_SIZE);
      return bytes;
    },
    write: (bytes) => after(() => writeAll(bytes)),
    closeWrite: () =>
      after(async () => {
        if (ended) return;
        ended = true;
        await conn.closeWrite();
      }).catch(() => {/* broken, or closed as a whole */}),
    reset() {
      try {
        conn.close();
      } catch {
        // closed already
      }
    },
  };
}
