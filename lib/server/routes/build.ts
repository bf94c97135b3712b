/** `POST /.svc/v1/build`: a context in, events out. */
import { SvcError } from "../../base/errors.ts";
import { formatBytes } from "../../base/bytes.ts";
import { Semaphore } from "../../base/mutex.ts";
import type { BuildEvent } from "../../api/build.ts";
import type { ManagementDeps } from "../deps.ts";
import { BUILD_PARAMETERS, buildRequest } from "../build_request.ts";
import { describeError } from "../error_response.ts";
import { pushEvents } from "../ndjson.ts";
import type { Context, Route } from "../route.ts";
import { API_PREFIX } from "./health.ts";

interface Body {
  stream: ReadableStream<Uint8Array>;
  /** True once the context is in, or nothing of it moved for a while. */
  settled(): boolean;
  /** Lets go of what was not read. */
  discard(): Promise<void>;
}

/** With no byte moved for this long, events go out although the context's end was not seen. */
const QUIET_MS = 1000;

/** How long the first events wait for a refusal that would be better told by a status. */
const HOLD_MS = 150;

/** The body with its size bounded. Throws `too_large` where its declared length says so already. */
function contextBody(request: Request, limit: number | undefined): Body {
  const tooLarge = () =>
    new SvcError(
      "too_large",
      `Cannot take the build context: it has more than ${formatBytes(limit!)}`,
      {
        help:
          "name what the build does not need in .dockerignore, or raise SVC_MAX_BUILD_CONTEXT_BYTES",
      },
    );
  if (!request.body) {
    throw new SvcError("context_invalid", "Cannot build: the request has no body");
  }
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (limit !== undefined && declared > limit) throw tooLarge();
  const reader = request.body.getReader();
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
        if (limit !== undefined && size > limit) throw tooLarge();
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

export function buildRoutes(deps: ManagementDeps): Route[] {
  const slots = new Semaphore(deps.limits.buildConcurrency);

  /**
   * The answer begins shortly after the context is in: what is refused until then (too large, no tar, a
   * Dockerfile that is not there or cannot be read) has its own status, what fails later is an event
   * after a 200. A step that fails is always told with its events.
   */
  async function build(context: Context): Promise<Response> {
    const options = buildRequest(context.url);
    const body = contextBody(context.request, deps.limits.maxBuildContextBytes);
    const cancel = new AbortController();
    const signal = AbortSignal.any([context.signal, cancel.signal]);
    const held: BuildEvent[] = [];
    const begun = Promise.withResolvers<void>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let emit = (event: BuildEvent) => {
      held.push(event);
      if (body.settled()) timer ??= setTimeout(begun.resolve, HOLD_MS);
    };
    const running = slots.run(async () => {
      const builder = await deps.builder();
      return await builder.build({ ...options, context: body.stream }, {
        onEvent: (event) => emit(event),
        signal,
      });
    }, signal).finally(body.discard);
    try {
      await Promise.race([begun.promise, running]);
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== "build_failed") throw error;
    } finally {
      clearTimeout(timer);
    }
    return pushEvents<BuildEvent>(async (send) => {
      for (const event of held.splice(0)) send(event);
      emit = send;
      send({ type: "result", result: await running });
    }, {
      describe: (error) => describeError(error, context),
      onCancel: () => cancel.abort(new DOMException("the client went away", "AbortError")),
    });
  }

  /** An archive that a build left for its client. */
  async function output({ params: { id } }: Context): Promise<Response> {
    const taken = await (await deps.builder()).outputs?.take(id);
    if (!taken) {
      throw new SvcError("not_found", `Cannot read build output ${id}: there is none, or no more`, {
        help: "an output is there for an hour, and once; build again",
      });
    }
    return new Response(taken.stream as ReadableStream<Uint8Array<ArrayBuffer>>, {
      headers: {
        "content-type": "application/x-tar",
        "content-length": String(taken.size),
        "cache-control": "no-store",
      },
    });
  }

  return [{
    method: "POST",
    path: `${API_PREFIX}/build`,
    action: "build",
    help:
      "Builds the tar archive in the body (plain, gzip or zstd) and publishes it under each `t`; " +
      "answers with events (NDJSON), the last one `result` or `error`. Query: " +
      `\`${BUILD_PARAMETERS.join(" ")}\`.`,
    handler: build,
  }, {
    method: "GET",
    path: `${API_PREFIX}/build/outputs/{id}`,
    action: "build",
    help:
      "Takes an archive that the result of a build names in `outputs`; read to its end it is gone.",
    handler: output,
  }];
}
