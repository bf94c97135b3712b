/** The body of `POST /.svc/v1/build`: a context of bounded size. */
import { SvcError } from "../../base/errors.ts";
import { contextTooLarge } from "../../build/context/too_large.ts";

export interface Body {
  stream: ReadableStream<Uint8Array>;
  /** True once the context is in, or nothing of it moved for a while. */
  settled(): boolean;
  /** Lets go of what was not read. */
  discard(): Promise<void>;
}

/** With no byte moved for this long, events go out although the context's end was not seen. */
const QUIET_MS = 1000;

/** The body with its size bounded. Throws `too_large` where its declared length says so already. */
export function contextBody(request: Request, limit: number | undefined): Body {
  // A build whose context is fetched needs none.
  const fetched = new URL(request.url).searchParams.has("remote");
  const body = request.body ?? (fetched ? new Blob([]).stream() : undefined);
  if (!body) throw new SvcError("context_invalid", "Cannot build: the request has no body");
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (limit !== undefined && declared > limit) throw contextTooLarge(limit);
  const reader = body.getReader();
  let ended = false;
  let size = 0;
  let moved = performance.now();
  const discard = async () => {
    ended = true;
    await reader.cancel().catch(() => {/* the client is gone, and its body with it */});
  };
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
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
      }
    },
    cancel: discard,
  }, { highWaterMark: 0 });
  return { stream, settled: () => ended || performance.now() - moved > QUIET_MS, discard };
}
