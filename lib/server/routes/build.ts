/** `POST /.svc/v1/build`: a context in, events out. */
import { SvcError } from "../../base/errors.ts";
import { Semaphore } from "../../base/mutex.ts";
import { endpoint } from "../../api/endpoints.ts";
import type { BuildEvent } from "../../api/build.ts";
import {
  LOGINS_HEADER,
  readLogins,
  readRegistry,
  REGISTRY_HEADER,
} from "../../api/build_logins.ts";
import type { ManagementDeps } from "../deps.ts";
import { buildCaller, buildRequest } from "../build_request.ts";
import { describeError } from "../error_response.ts";
import { json } from "../json.ts";
import { pushEvents } from "../ndjson.ts";
import type { Context, Route } from "../route.ts";
import { attachRoute } from "./build_attach.ts";
import { contextBody } from "./build_body.ts";
import { delegating } from "./build_relay.ts";

/** How long the first events wait for an error that can still be told by a status. */
const HOLD_MS = 150;

/**
 * The answer begins shortly after the context has arrived. An error before that (too large, no tar, a missing
 * or unreadable Dockerfile) has its own status; a later error is an event after a 200. A failed step is
 * always an event.
 */
async function build(
  deps: ManagementDeps,
  slots: Semaphore,
  context: Context,
): Promise<Response> {
  const logins = readLogins(context.request.headers.get(LOGINS_HEADER));
  const registry = readRegistry(context.request.headers.get(REGISTRY_HEADER));
  const options = {
    ...buildRequest(context.url),
    caller: buildCaller(deps.access, context.identity, context.request.headers),
    ...(logins && { logins }),
    ...(registry !== undefined && { registry }),
  };
  const { maxBuildContextBytes: maxContextBytes } = deps.limits;
  const limits = maxContextBytes === undefined ? {} : { maxContextBytes };
  const body = contextBody(context.request, maxContextBytes);
  const cancel = new AbortController();
  const signal = AbortSignal.any([context.signal, cancel.signal]);
  const held: BuildEvent[] = [];
  const begun = Promise.withResolvers<void>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let emit = (event: BuildEvent) => {
    held.push(event);
    // A caller that waits in the queue is told at once, although its context is not read before its turn.
    if (event.type === "queued" || body.settled()) timer ??= setTimeout(begun.resolve, HOLD_MS);
  };
  const running = slots.run(
    async () => {
      const builder = await deps.builder();
      return await builder.build({ ...options, ...limits, context: body.stream }, {
        onEvent: (event) => emit(event),
        signal,
      });
    },
    signal,
    (place) => emit({ type: "queued", place }),
  ).finally(body.discard);
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

/** An archive that a build is to read. */
async function input(
  { builder, limits }: ManagementDeps,
  { request, signal }: Context,
): Promise<Response> {
  const { archives } = await builder();
  if (!archives) {
    throw new SvcError("unsupported", "Cannot take an archive: the builder keeps none");
  }
  const body = contextBody(request, limits.maxBuildContextBytes);
  try {
    return json(await archives.put(body.stream, signal), { status: 201 });
  } finally {
    await body.discard();
  }
}

/** An archive that a build wrote for its client. */
async function output(
  { builder }: ManagementDeps,
  { params: { id } }: Context,
): Promise<Response> {
  const taken = await (await builder()).archives?.take(id);
  if (!taken) {
    throw new SvcError(
      "not_found",
      `Cannot read build output ${id}: there is none, or it was removed`,
      {
        help: "an output is there for an hour, and once; build again",
      },
    );
  }
  return new Response(taken.stream as ReadableStream<Uint8Array<ArrayBuffer>>, {
    headers: {
      "content-type": "application/x-tar",
      "content-length": String(taken.size),
      "cache-control": "no-store",
    },
  });
}

export function buildRoutes(deps: ManagementDeps): Route[] {
  const slots = new Semaphore(deps.limits.buildConcurrency);
  const delegated = delegating(deps);

  return [
    {
      ...endpoint("POST /build"),
      action: "build",
      help:
        "Builds the tar archive in the body (plain, gzip or zstd) and publishes it under each `t`; " +
        "answers with events (NDJSON), the last one `result` or `error`.",
      handler: delegated((context) => build(deps, slots, context)),
    },
    attachRoute(deps, slots, delegated),
    {
      ...endpoint("POST /build/inputs"),
      action: "build",
      help: "Takes an archive that a build is to read: the OCI layout of a cache, which " +
        "`cachefrom=type=local,id=ID` names. Answers with its `id`; it is there for an hour.",
      handler: delegated((context) => input(deps, context)),
    },
    {
      ...endpoint("GET /build/outputs/{id}"),
      action: "build",
      help:
        "Takes an archive that the result of a build names in `outputs`; read to its end it is gone.",
      handler: delegated((context) => output(deps, context)),
    },
  ];
}
