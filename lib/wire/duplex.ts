/** A byte stream with two directions: what yamux gives, and what 9P and lines of JSON run on. */

export interface Duplex {
  /** The next bytes, never empty; undefined at the other side's end. Throws where the stream broke. */
  read(): Promise<Uint8Array | undefined>;
  /** Resolves when there is room for more. Concurrent calls are sent whole, in the order of the calls. */
  write(bytes: Uint8Array): Promise<void>;
  /** Ends the own direction; the other one goes on. Idempotent. */
  closeWrite(): Promise<void>;
  /** Ends both directions at once: what is under way is lost. Idempotent. */
  reset(): void;
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

/** Over a connection of the operating system. */
export function connDuplex(conn: Deno.Conn): Duplex {
  const writer = conn.writable.getWriter();
  writer.closed.catch(() => {/* told by the write that fails */});
  const reader = conn.readable.getReader();
  return {
    async read() {
      const { value } = await reader.read();
      return value;
    },
    write: (bytes) => writer.write(bytes as Uint8Array<ArrayBuffer>),
    closeWrite: () => writer.close().catch(() => {/* closed already */}),
    reset() {
      try {
        conn.close();
      } catch {
        // closed already
      }
    },
  };
}
