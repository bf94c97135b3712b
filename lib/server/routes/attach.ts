/** `GET /.svc/v1/deployments/{name}/attach`: the main process and its streams (lib/api/attach.ts). */
import {
  type AttachEnd,
  type AttachFields,
  type AttachQuery,
  decodeAttachQuery,
} from "../../api/attach.ts";
import { endpoint } from "../../api/endpoints.ts";
import { SvcError } from "../../base/errors.ts";
import { sleep } from "../../base/sleep.ts";
import type { AttachSession } from "../../deploy/caps.ts";
import type { Attached } from "../../wire/attached/session.ts";
import { accept } from "../attached/accept.ts";
import { serveProcess } from "../attached/process.ts";
import type { ManagementDeps } from "../deps.ts";
import { describeError } from "../error_response.ts";
import type { Context, Route } from "../route.ts";
import { requireAbilityFor } from "./ability.ts";

/** How long a process may take for input of a client that has gone, in milliseconds. */
const TAKING_MS = 5000;

/** Resolves when the process has ended, or the client has gone. */
async function serve(
  session: Attached,
  process: AttachSession,
  { stdin, size }: AttachQuery,
): Promise<void> {
  const { stdout, stderr, exit } = process;
  const input = stdin ? process.stdin?.getWriter() : undefined;
  const fields: AttachFields = { tty: Boolean(process.resize), stdin: input !== undefined };
  if (size) process.resize?.(size);
  await serveProcess(session, {
    ...input && { stdin: input },
    ...{ stdout, stderr },
    ...process.resize && { resize: (size) => process.resize!(size) },
    end: exit.then((exit): AttachEnd => exit === undefined ? {} : { exit }),
    left: async (fed) => {
      // What was typed before the client left is for the process.
      await Promise.race([fed, sleep(TAKING_MS)]);
      process.detach();
    },
  }, { attempt: "attach", fields: { ...fields } });
}

export function attachRoutes(deps: ManagementDeps): Route[] {
  async function attach(context: Context): Promise<Response> {
    const { url, params: { name } } = context;
    const query = decodeAttachQuery(url.searchParams);
    const { ability } = await requireAbilityFor(deps, "attach", "attach to", name);
    const stopped = new SvcError(
      "unavailable",
      `Cannot stay attached to ${name}: the server is shutting down`,
    );
    const { session, response } = accept(context, deps.lifecycle, {
      attempt: `attach to ${name}`,
      help: "use `svc attach`",
      onStop: (session) => session.fail(stopped),
    });
    const gone = new AbortController();
    void session.closed.then((reason) => gone.abort(reason));
    // WebSocket clients cannot read the body of a refused upgrade: the reason is sent as the session's error.
    ability(name, { instance: query.instance, signal: gone.signal })
      .then((process) => serve(session, process, query))
      .catch((error) => session.fail(describeError(error, context)))
      .finally(deps.lifecycle.begin());
    return response;
  }

  return [{
    ...endpoint("GET /deployments/{name}/attach"),
    action: "exec",
    help:
      "Attached session: the streams of an instance's main process, from now on. The server opens `stdio`, " +
      "`stderr` and `command` (whether there is a terminal and input; sizes of the terminal from the client; the exit " +
      "code from the server). A client that goes away ends nothing.",
    handler: attach,
  }];
}
