/** Streams of events, one JSON object per line. A failure after the 200 status is the stream's last line. */
import { NDJSON_TYPE } from "../api/endpoints.ts";
import type { SvcError } from "../base/errors.ts";
import { toProblem } from "../api/problem.ts";

export { NDJSON_TYPE };

const encoder = new TextEncoder();
const text = (value: unknown) => JSON.stringify(value) + "\n";
const line = (value: unknown) => encoder.encode(text(value));

const HEADERS = {
  "content-type": NDJSON_TYPE,
  "cache-control": "no-store",
  // A buffering proxy would hold back events that a person waits for.
  "x-accel-buffering": "no",
};

/** The last line of a stream that failed; all our clients know it. */
function errorEvent(error: SvcError) {
  return { type: "error" as const, error: toProblem(error) };
}

export interface StreamOptions {
  /** Turns a thrown value into the error that the client gets. */
  describe: (error: unknown) => SvcError;
  /** The client went away, or stopped reading. */
  onCancel?: () => void;
}

/**
 * Events as `produce` sends them, for producers that cannot wait: events that the client has not read are held
 * in memory.
 */
export function pushEvents<T>(
  produce: (send: (event: T) => void) => Promise<void>,
  options: StreamOptions,
): Response {
  let open = true;
  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start(controller) {
      const send = (event: unknown) => {
        if (open) controller.enqueue(line(event));
      };
      produce(send).catch((error) => send(errorEvent(options.describe(error)))).finally(() => {
        if (open) controller.close();
        open = false;
      });
    },
    cancel() {
      open = false;
      options.onCancel?.();
    },
  });
  return new Response(stream, { headers: HEADERS });
}

/** Items of `source`, read on demand. `format` absent: NDJSON, in which each item of a list has a line. */
export function pullEvents<T>(
  source: AsyncIterable<T>,
  options: StreamOptions & { format?: (item: T) => Uint8Array<ArrayBuffer> },
): Response {
  const iterator = source[Symbol.asyncIterator]();
  const { format } = options;
  let open = true;
  const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const { done, value } = await iterator.next();
        // The client has gone.
        if (!open) return;
        if (done) controller.close();
        else if (format) controller.enqueue(format(value));
        else if (Array.isArray(value)) {
          controller.enqueue(encoder.encode(value.map(text).join("")));
        } else controller.enqueue(line(value));
      } catch (error) {
        if (!open) return;
        const known = options.describe(error);
        controller.enqueue(
          format ? encoder.encode(`error: ${known.message}\n`) : line(errorEvent(known)),
        );
        controller.close();
      }
    },
    cancel() {
      open = false;
      options.onCancel?.();
      // A source that waits for its next item ends by its own signal: its end is not awaited here.
      iterator.return?.().catch(() => {});
    },
  }, { highWaterMark: 1 });
  return new Response(stream, {
    headers: format ? { ...HEADERS, "content-type": "text/plain; charset=utf-8" } : HEADERS,
  });
}
