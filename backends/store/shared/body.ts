/** Reads objects: small ones whole, large ones in a stream that resumes where it breaks. */
import { SvcError } from "../../../lib/base/errors.ts";
import type { Bucket, Call } from "./bucket.ts";
import { isRefusedCondition } from "./errors.ts";
import { ConnectionError, StalledError } from "./http.ts";

/** Consecutive attempts to resume a stream without receiving a byte. */
const RESUMES = 3;
const PAUSE_MS = 200;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export async function collect(body: ReadableStream<Uint8Array>, size: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(size);
  let at = 0;
  for await (const chunk of body) {
    if (at + chunk.length > size) throw new ConnectionError(`more than ${size} bytes came`);
    bytes.set(chunk, at);
    at += chunk.length;
  }
  if (at < size) throw new ConnectionError(`the answer ended ${size - at} bytes early`);
  return bytes;
}

const endedEarly = (left: number) => new ConnectionError(`the answer ended ${left} bytes early`);

export interface Stretch {
  key: string;
  /** First byte. */
  offset: number;
  size: number;
  /** An object with another ETag under the same key is refused. */
  etag: string;
  /** Bytes that are already here, from `offset` on. */
  head?: Uint8Array;
}

/** Reads a stretch from front to back, over one connection after the other. */
class StretchReader {
  /** The position of the next byte. */
  at: number;
  readonly end: number;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #failures = 0;

  constructor(
    private readonly bucket: Bucket,
    private readonly stretch: Stretch,
    private readonly call: Call,
  ) {
    this.at = stretch.offset;
    this.end = stretch.offset + stretch.size;
  }

  async #connect(): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const { bucket, stretch: { key, etag }, call, at, end } = this;
    try {
      const found = await bucket.get(key, { start: at, end: end - 1 }, { ...call, etag });
      if (found) return found.body.getReader();
    } catch (error) {
      if (!isRefusedCondition(error)) throw bucket.fail(error, `read ${key}`);
      throw new SvcError("conflict", `Cannot read ${key}: it was replaced in the meantime`);
    }
    throw new SvcError("conflict", `Cannot read ${key}: it was deleted in the meantime`);
  }

  async next(): Promise<Uint8Array> {
    for (;;) {
      const reader = this.#reader ??= await this.#connect();
      try {
        const { value, done } = await reader.read();
        if (done) throw endedEarly(this.end - this.at);
        this.#failures = 0;
        return value;
      } catch (error) {
        const lost = error instanceof ConnectionError || error instanceof StalledError;
        reader.cancel().catch(() => {/* it is broken */});
        this.#reader = undefined;
        if (!lost || ++this.#failures > RESUMES) {
          throw this.bucket.fail(error, `read ${this.stretch.key}`);
        }
        this.call.signal?.throwIfAborted();
        await pause(PAUSE_MS * this.#failures);
      }
    }
  }

  async cancel(reason?: unknown): Promise<void> {
    await this.#reader?.cancel(reason);
  }
}

/**
 * The bytes of a stretch. A connection that breaks or stalls is reopened at the same position, a bounded number
 * of times. An object that was replaced meanwhile is `conflict`.
 */
export function readStretch(
  bucket: Bucket,
  stretch: Stretch,
  call: Call = {},
): ReadableStream<Uint8Array> {
  const source = new StretchReader(bucket, stretch, call);
  let { head } = stretch;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (source.at === source.end) return controller.close();
      call.signal?.throwIfAborted();
      const chunk = head ?? await source.next();
      head = undefined;
      const left = source.end - source.at;
      const wanted = chunk.length > left ? chunk.subarray(0, left) : chunk;
      source.at += wanted.length;
      if (wanted.length > 0) controller.enqueue(wanted);
      if (source.at === source.end) {
        await source.cancel();
        controller.close();
      }
    },
    cancel: (reason) => source.cancel(reason),
  }, { highWaterMark: 0 });
}
