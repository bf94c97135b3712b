/** Streams of events, one JSON object a line. A failure after the 200 is the stream's last line. */
import type { SvcError } from "../base/errors.ts";
import { toProblem } from "../api/problem.ts";

export const NDJSON_TYPE = "application/x-ndjson";

const encoder = new TextEncoder();
const line = (value: unknown) => encoder.encode(JSON.stringify(value) + "\n");

const HEADERS = {
  "content-type": NDJSON_TYPE,
  "cache-control": "no-store",
  // Proxies that buffer would hold back what a person is waiting for.
  "x-accel-buffering": "no",
};

/** The last line of a stream that failed; every client of ours knows it. */
export function errorEvent(error: SvcError) {
  return { type: "error" as const, error: toProblem(error) };
}

export interface StreamOptions {
  /** Makes what the client is told of a thrown value. */
  describe: (error: unknown) => SvcError;
  /** The client went away, or reads no further. */
  onCancel?: () => void;
}

/**
 * Events as `produce` sends them. For producers that cannot be made to wait: what the client has not
 * read yet is held in memory.
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

/** Items of `source` as they are asked for; `format` absent: NDJSON. */
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
        // Nobody is left to tell.
        if (!open) return;
        if (done) controller.close();
        else controller.enqueue(format ? format(value) : line(value));
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
      // A source that waits for its next item ends by its signal; nobody waits for that here.
      iterator.return?.().catch(() => {});
    },
  }, { highWaterMark: 1 });
  return new Response(stream, {
    headers: format ? { ...HEADERS, "content-type": "text/plain; charset=utf-8" } : HEADERS,
  });
}
