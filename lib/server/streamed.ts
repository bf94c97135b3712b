/** Streams that end when their client goes away, or when the server stops. */
import { describeError } from "./error_response.ts";
import { pullEvents } from "./ndjson.ts";
import type { Context } from "./route.ts";

export interface Streamed<T> {
  /** Opens the source. It is open when the answer begins. The signal aborts when nobody reads any more. */
  open: (signal: AbortSignal) => AsyncIterable<T>;
  /** The server's stop, for a source without an end of its own: it then ends without an error. */
  stopping?: AbortSignal;
  /** Absent: NDJSON. */
  format?: (item: T) => Uint8Array<ArrayBuffer>;
}

/** The items of `source`; ends without an error when `stopping` aborts. */
async function* untilStopped<T>(
  source: AsyncIterable<T>,
  stopping: AbortSignal | undefined,
): AsyncGenerator<T> {
  try {
    yield* source;
  } catch (error) {
    if (!stopping?.aborted) throw error;
  }
}

/** The source's items, read as fast as the client takes them. */
export function streamed<T>(
  context: Context,
  { open, stopping, format }: Streamed<T>,
): Response {
  const left = new AbortController();
  const ends = [context.signal, left.signal, ...stopping ? [stopping] : []];
  return pullEvents(untilStopped(open(AbortSignal.any(ends)), stopping), {
    describe: (error) => describeError(error, context),
    onCancel: () => left.abort(new DOMException("the client went away", "AbortError")),
    format,
  });
}
