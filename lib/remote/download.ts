/** Reads a blob from another registry, and resumes after a broken connection. */
import { SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import { isPassing, refusal, type Transport } from "./transport.ts";

export interface Download {
  path: string;
  scope: string;
  /** Offset of the first byte; `end` is the offset after the last. */
  start: number;
  end: number;
  /** The whole blob is wanted: the first request needs no range. */
  whole: boolean;
  signal?: AbortSignal;
}

/** After this many bytes the count of failed attempts starts again. */
const PROGRESS = 1024 * 1024;

async function open(transport: Transport, what: Download, at: number): Promise<Response> {
  const partial = !what.whole || at > what.start;
  const response = await transport.request(what.path, {
    scope: what.scope,
    signal: what.signal,
    headers: partial ? { range: `bytes=${at}-${what.end - 1}` } : {},
  });
  if (response.status === 200 || response.status === 206) return response;
  throw await refusal(`Cannot read a blob from ${transport.host}`, transport.host, response);
}

/** Bytes before `at` at the start of the answer, which were not asked for. */
function surplus(response: Response, at: number, host: string): number {
  if (response.status === 200) return at; // the server ignores ranges
  const first = /^bytes (\d+)-/.exec(response.headers.get("content-range") ?? "")?.[1];
  if (first !== undefined && Number(first) === at) return 0;
  throw new SvcError(
    "upstream_failed",
    `Cannot read a blob from ${host}: it answered with another range than asked for`,
  );
}

/** One chunk, or `done`; throws a timeout after `stallMs` without a byte. */
async function readChunk(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  transport: Transport,
  signal?: AbortSignal,
): Promise<ReadableStreamReadResult<Uint8Array>> {
  signal?.throwIfAborted();
  const { promise: stopped, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new DOMException("no bytes in time", "TimeoutError")),
    transport.stallMs,
  );
  const abort = () => reject(signal!.reason);
  signal?.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([reader.read(), stopped]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

async function* pieces(transport: Transport, what: Download): AsyncGenerator<Uint8Array> {
  let at = what.start;
  let failures = 0;
  let failedAt = at;
  while (at < what.end) {
    let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
    try {
      const response = await open(transport, what, at);
      reader = (response.body ?? new Blob([]).stream()).getReader();
      let skip = surplus(response, at, transport.host);
      while (at < what.end) {
        const { done, value } = await readChunk(reader, transport, what.signal);
        if (done) break;
        const chunk = value.subarray(Math.min(skip, value.length));
        skip -= value.length - chunk.length;
        if (chunk.length === 0) continue;
        // An answer without a range may continue after the last wanted byte.
        const wanted = chunk.subarray(0, what.end - at);
        at += wanted.length;
        yield wanted;
      }
      if (at < what.end) throw new TypeError("the body ended early");
    } catch (error) {
      what.signal?.throwIfAborted();
      const failure = transport.failure(error);
      if (at - failedAt >= PROGRESS) failures = 0;
      failedAt = at;
      if (!isPassing(failure) || ++failures >= transport.attempts) throw failure;
      await sleep(transport.pause(failures), what.signal);
    } finally {
      // Also when the reader stops in the middle: the connection is closed.
      await reader?.cancel().catch(() => {/* the connection broke already */});
    }
  }
}

/** The bytes `start` to `end` of a blob as one stream; not verified here. */
export function download(transport: Transport, what: Download): ReadableStream<Uint8Array> {
  return ReadableStream.from(pieces(transport, what));
}
