/** From a request's body to an appendable file, in pieces large enough to be cheap. */
import { SvcError } from "../base/errors.ts";

/** Bytes of one write. Smaller writes cost more calls; larger ones block the event loop while they are hashed. */
const PIECE = 256 * 1024;

export interface PumpOptions {
  /** Stops reading the body; bytes that arrived are still written. */
  signal: AbortSignal;
  /** Most bytes that the body may have; a longer one throws `size_invalid`, and its surplus is not written. */
  limit?: number;
  onChunk: () => void;
  /** Writes one piece at a time. The piece's buffer is reused once this resolves. */
  write: (piece: Uint8Array) => Promise<void>;
}

/**
 * Moves a body into a file. The next piece is gathered while the last is written. Where the body fails, is
 * aborted or is too long, the bytes that arrived are written before the error is thrown.
 */
export async function pump(body: ReadableStream<Uint8Array>, options: PumpOptions): Promise<void> {
  const { signal, limit = Infinity } = options;
  let [filling, writing] = [new Uint8Array(PIECE), new Uint8Array(PIECE)];
  let filled = 0;
  let taken = 0;
  let pending: Promise<void> = Promise.resolve();
  const flush = async () => {
    await pending;
    [filling, writing] = [writing, filling];
    pending = options.write(writing.subarray(0, filled));
    // Awaited before the next write and at the end; marked so that it is never "unhandled" in between.
    pending.catch(() => {});
    filled = 0;
  };
  const reader = body.getReader();
  const stop = () => void reader.cancel(signal.reason).catch(() => {});
  signal.addEventListener("abort", stop, { once: true });
  let failure: { error: unknown } | undefined;
  try {
    for (;;) {
      if (signal.aborted) throw signal.reason;
      const { value, done } = await reader.read();
      if (done) break;
      options.onChunk();
      const chunk = taken + value.length > limit ? value.subarray(0, limit - taken) : value;
      for (let at = 0; at < chunk.length;) {
        const part = Math.min(chunk.length - at, PIECE - filled);
        filling.set(chunk.subarray(at, at + part), filled);
        filled += part;
        at += part;
        if (filled === PIECE) await flush();
      }
      taken += chunk.length;
      if (chunk.length < value.length) {
        throw new SvcError(
          "size_invalid",
          `Cannot accept the body: it has more than ${limit} bytes`,
        );
      }
    }
    if (signal.aborted) throw signal.reason;
  } catch (error) {
    failure = { error };
    reader.cancel(error).catch(() => {});
  } finally {
    signal.removeEventListener("abort", stop);
  }
  if (filled > 0) await flush();
  await pending;
  reader.releaseLock();
  if (failure) throw failure.error;
}
