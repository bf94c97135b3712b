/** `POST /.svc/v1/gc`, `GET /.svc/v1/storage`, `POST /.svc/v1/storage/verify`. */
import { endpoint } from "../../api/endpoints.ts";
import type { GcEvent, StorageUsage } from "../../api/storage.ts";
import { parseDuration } from "../../base/duration.ts";
import { SvcError } from "../../base/errors.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import { json } from "../json.ts";
import { NDJSON_TYPE, pullEvents, pushEvents } from "../ndjson.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";

function idleOf(query: Query): number | undefined {
  const text = query.text("idle");
  if (text === undefined) return undefined;
  const idleMs = parseDuration(text);
  if (idleMs >= 0) return idleMs;
  throw new SvcError("argument_invalid", `Cannot read query parameter idle: ${text} is negative`);
}

async function gc(
  { storage, lifecycle }: ManagementDeps,
  context: Context,
): Promise<Response> {
  const { request, url } = context;
  const query = new Query(url);
  const left = new AbortController();
  const signal = AbortSignal.any([context.signal, left.signal, lifecycle.stopping]);
  const options = { dryRun: query.bool("dryRun") ?? false, idleMs: idleOf(query), signal };
  if (!request.headers.get("accept")?.includes(NDJSON_TYPE)) {
    return json(await storage.collect(options));
  }
  return pushEvents<GcEvent>(async (send) => {
    let last = 0;
    const result = await storage.collect({
      ...options,
      onProgress: (progress) => {
        // Unread events are held in memory: no more are sent than a person can follow.
        if (performance.now() - last < 100) return;
        last = performance.now();
        send({ type: "progress", ...progress });
      },
    });
    send({ type: "result", result });
  }, {
    describe: (error) => describeError(error, context),
    onCancel: () => left.abort(new DOMException("the client went away", "AbortError")),
  });
}

function verify({ storage, lifecycle }: ManagementDeps, context: Context): Response {
  const quarantine = new Query(context.url).bool("quarantine") ?? false;
  const left = new AbortController();
  const signal = AbortSignal.any([context.signal, left.signal, lifecycle.stopping]);
  return pullEvents(storage.verify({ quarantine, signal }), {
    describe: (error) => describeError(error, context),
    onCancel: () => left.abort(new DOMException("the client went away", "AbortError")),
  });
}

export function storageRoutes(deps: ManagementDeps): Route[] {
  const { storage, buildCache } = deps;
  return [
    {
      ...endpoint("POST /gc"),
      action: "gc",
      help: "Collects garbage: blobs that no manifest refers to, untagged manifests where " +
        "SVC_GC_UNTAGGED says so, and build cache beyond SVC_BUILD_CACHE_KEEP_BYTES. `dryRun` only counts; `idle` (a duration, default 1h) is how " +
        "long a push may rest before what it was told exists is let go. Progress as NDJSON where " +
        "Accept asks for it.",
      handler: (context) => gc(deps, context),
    },
    {
      ...endpoint("GET /storage"),
      action: "read",
      help: "What the content store and the build cache hold: numbers and bytes; and how far " +
        "SVC_STORAGE_SCRUB is, with what it found damaged.",
      handler: async ({ signal }) => {
        const cache = await buildCache?.usage({ signal });
        const scrub = await storage.scrubbed({ signal });
        return json(
          {
            content: await storage.usage({ signal }),
            ...(cache && { buildCache: cache }),
            ...(scrub && { scrub }),
          } satisfies StorageUsage,
        );
      },
    },
    {
      ...endpoint("POST /storage/verify"),
      action: "gc",
      help: "Reads every blob and checks it against its digest, and what manifests, tags and " +
        "referrers name; events as NDJSON, the last one the result. `quarantine` moves damaged " +
        "blobs aside.",
      handler: (context) => verify(deps, context),
    },
  ];
}
