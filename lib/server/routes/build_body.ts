/** The body of `POST /.svc/v1/build`: a context of bounded size. */
import { SvcError } from "../../base/errors.ts";
import { contextTooLarge } from "../../build/context/too_large.ts";
import { type Clock, LEAST_PACE, Pace } from "../../wire/pace.ts";

export interface Body {
  stream: ReadableStream<Uint8Array>;
  /** True once the context has arrived, or no byte moved for a while. */
  settled(): boolean;
  /** Cancels the unread rest. */
  discard(): Promise<void>;
}

/** When no byte moves for this long, events are sent although the context has not ended. */
const QUIET_MS = 1000;

/** A build whose context trickles in would keep its place in the queue from others. */
function tooSlow(): SvcError {
  return new SvcError(
    "context_invalid",
    `Cannot read the build context: almost nothing arrived for ${LEAST_PACE.windowMs / 1000} s`,
    { help: "check the connection, and build again" },
  );
}

/**
 * The request's body with a limit on its size and on the time that it takes. Throws `too_large` where its
 * declared length exceeds the limit.
 */
export function contextBody(request: Request, limit: number | undefined, clock?: Clock): Body {
  // The server fetches the context itself: no body is needed.
  const fetched = new URL(request.url).searchParams.has("remote");
  const body = request.body ?? (fetched ? new Blob([]).stream() : undefined);
  if (!body) throw new SvcError("context_invalid", "Cannot build: the request has no body");
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (limit !== undefined && declared > limit) throw contextTooLarge(limit);
  const reader = body.getReader();
  const pace = new Pace({ ...LEAST_PACE, late: tooSlow, clock });
  let ended = false;
  let size = 0;
  let moved = performance.now();
  const discard = async () => {
    ended = true;
    await reader.cancel().catch(() => {/* the client is gone, and its body with it */});
  };
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { promise: late, reject } = Promise.withResolvers<never>();
      const leave = pace.wait(reject);
      try {
        const { done, value } = await Promise.race([reader.read(), late]);
        pace.came(value?.length ?? 0);
        moved = performance.now();
        if (done) {
          ended = true;
          return controller.close();
        }
        size += value.length;
        if (limit !== undefined && size > limit) throw contextTooLarge(limit);
        controller.enqueue(value);
      } catch (error) {
        await discard();
        throw error;
      } finally {
        leave();
      }
    },
    cancel: discard,
  }, { highWaterMark: 0 });
  return { stream, settled: () => ended || performance.now() - moved > QUIET_MS, discard };
}
