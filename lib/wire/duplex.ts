/** A byte stream with two directions: what yamux gives, and what 9P and lines of JSON run on. */
import { SvcError } from "../base/errors.ts";

export interface Duplex {
  /** The next bytes, never empty; undefined at the other side's end. Throws where the stream broke. */
  read(): Promise<Uint8Array | undefined>;
  /**
   * Resolves when there is room for more; the bytes are the stream's from then on. Concurrent calls are
   * sent whole, in the order of the calls.
   */
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the own direction; the other one goes on. Idempotent. */
  closeWrite(): Promise<void>;
  /**
   * Ends both directions at once: what is under way is lost. Idempotent. The other side is told `why` where
   * the stream has words for it.
   */
  reset(why?: unknown): void;
  /**
   * Where the stream can tell by itself: resolves when nothing is sent in either direction any more, with
   * what broke it if it knows, undefined in good order.
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

/** Takes bytes to write; closing ends that direction alone, aborting resets the stream. */
export function writableOf(stream: Duplex): WritableStream<Uint8Array> {
  return new WritableStream<Uint8Array>({
    write: (bytes) => stream.write(bytes),
    close: () => stream.closeWrite(),
    abort: () => stream.reset(),
  });
}

const READ_SIZE = 64 * 1024;

/**
 * Over a connection of the operating system. Its own streams are left alone: closing one of them closes
 * the connection, and the other direction with it.
 */
export function connDuplex(conn: Deno.Conn): Duplex {
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
      // Too much to copy: the taker gets this buffer.
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
