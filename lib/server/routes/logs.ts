/** `GET /.svc/v1/deployments/{name}/logs`. */
import { endpoint } from "../../api/endpoints.ts";
import type { LogFrame } from "../../api/deployment.ts";
import { LinePrefixer } from "../../api/log_bytes.ts";
import { concat } from "../../base/collect.ts";
import type { ManagementDeps } from "../deps.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { streamed } from "../streamed.ts";
import { unknownDeployment } from "./deployments.ts";

async function* ofStreams(
  source: AsyncIterable<LogFrame[]>,
  streams: ReadonlySet<string>,
): AsyncGenerator<LogFrame[]> {
  for await (const frames of source) yield frames.filter(({ stream }) => streams.has(stream));
}

/** Neither stream named: both. One switched off: the other. One switched on: that stream. */
function selectStreams(query: Query): ReadonlySet<string> {
  const [stdout, stderr] = [query.bool("stdout"), query.bool("stderr")];
  const any = stdout === true || stderr === true;
  const chosen = new Set<string>();
  if (stdout ?? !any) chosen.add("stdout");
  if (stderr ?? !any) chosen.add("stderr");
  return chosen;
}

export function logRoutes(deps: ManagementDeps): Route[] {
  async function logs(context: Context): Promise<Response> {
    const { request, url, params: { name } } = context;
    const query = new Query(url);
    const tail = query.text("tail") === "all" ? undefined : query.count("tail");
    const [since, until] = [query.time("since"), query.time("until")];
    const follow = query.bool("follow") ?? false;
    const [instance, timestamps] = [query.text("instance"), query.bool("timestamps")];
    const streams = selectStreams(query);
    const backend = await deps.deploy.backend();
    if (!await backend.status(name)) throw unknownDeployment("show the logs of", name);
    const accept = request.headers.get("accept") ?? "";
    const text = accept.includes("text/plain") && !accept.includes("ndjson");
    const lines = new LinePrefixer();
    return streamed(context, {
      stopping: follow ? deps.lifecycle.stopping : undefined,
      open: (signal) =>
        ofStreams(
          backend.logs(name, { follow, tail, since, until, instance, signal }),
          streams,
        ),
      format: text
        ? (frames) =>
          concat(frames.map((frame) => lines.print(frame, timestamps ? `${frame.time} ` : "")))
        : undefined,
    });
  }

  return [{
    ...endpoint("GET /deployments/{name}/logs"),
    action: "logs",
    help:
      "Lines that a deployment printed: frames (NDJSON), or `text/plain` where Accept asks for it: then " +
      "exactly the bytes. A frame whose bytes are no UTF-8 has them in `base64`; one with `partial` is " +
      "followed by no newline.",
    handler: logs,
  }];
}
