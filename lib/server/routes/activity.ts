/** `GET /.svc/v1/activity`. */
import { endpoint } from "../../api/endpoints.ts";
import type { ActivityRecord } from "../activity/record.ts";
import { describeError } from "../error_response.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { pullEvents } from "../ndjson.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";

/** Most entries that a reader may ask for with `tail`. */
const MOST_TAIL = 100_000;

export interface ActivityDeps {
  record: ActivityRecord;
  lifecycle: Lifecycle;
}

export function activityRoutes({ record, lifecycle }: ActivityDeps): Route[] {
  function activity(context: Context): Response {
    const query = new Query(context.url);
    const follow = query.bool("follow") ?? false;
    const since = query.time("since");
    const tail = query.text("tail") === "all" ? undefined : query.count("tail");
    const closed = new AbortController();
    const signal = AbortSignal.any([
      context.signal,
      closed.signal,
      ...follow ? [lifecycle.stopping] : [],
    ]);
    const source = record.read({
      follow,
      tail: tail === undefined ? undefined : Math.min(tail, MOST_TAIL),
      signal,
    });
    const after = since?.toISOString();
    const entries = async function* () {
      for await (const entry of source) if (!after || entry.time >= after) yield entry;
    };
    return pullEvents(entries(), {
      describe: (error) => describeError(error, context),
      onCancel: () => closed.abort(new DOMException("the client went away", "AbortError")),
    });
  }

  return [{
    ...endpoint("GET /activity"),
    action: "admin",
    help:
      "The flight record: who did what to which name, from where, with which result; entries (NDJSON), " +
      "oldest first.",
    handler: activity,
  }];
}
