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

/**
 * The bytes of a stretch. A connection that breaks or stalls is reopened at the same position, a bounded number
 * of times. An object that was replaced meanwhile is `conflict`.
 */
export function readStretch(
  bucket: Bucket,
  stretch: Stretch,
  call: Call = {},
): ReadableStream<Uint8Array> {
  const { key, etag } = stretch;
  const attempted = `read ${key}`;
  let at = stretch.offset;
  const end = stretch.offset + stretch.size;
  let head = stretch.head;
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  let failures = 0;

  const connect = async () => {
    try {
      const found = await bucket.get(key, { start: at, end: end - 1 }, { ...call, etag });
      if (!found) {
        throw new SvcError("conflict", `Cannot read ${key}: it was deleted in the meantime`);
      }
      return found.body.getReader();
    } catch (error) {
      if (isRefusedCondition(error)) {
        throw new SvcError("conflict", `Cannot read ${key}: it was replaced in the meantime`);
      }
      throw bucket.fail(error, attempted);
    }
  };
  const next = async (): Promise<Uint8Array> => {
    for (;;) {
      reader ??= await connect();
      try {
        const { value, done } = await reader.read();
        if (done) throw endedEarly(end - at);
        failures = 0;
        return value;
      } catch (error) {
        const lost = error instanceof ConnectionError || error instanceof StalledError;
        reader.cancel().catch(() => {/* it is broken */});
        reader = undefined;
        if (!lost || ++failures > RESUMES) throw bucket.fail(error, attempted);
        call.signal?.throwIfAborted();
        await pause(PAUSE_MS * failures);
      }
    }
  };

  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (at === end) return controller.close();
      call.signal?.throwIfAborted();
      const chunk = head ?? await next();
      head = undefined;
      const wanted = chunk.length > end - at ? chunk.subarray(0, end - at) : chunk;
      at += wanted.length;
      if (wanted.length > 0) controller.enqueue(wanted);
      if (at === end) {
        await reader?.cancel();
        controller.close();
      }
    },
    async cancel(reason) {
      await reader?.cancel(reason);
    },
  }, { highWaterMark: 0 });
}
