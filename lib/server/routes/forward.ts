/** `GET /.svc/v1/deployments/{name}/forward`: a port of an instance on a WebSocket (lib/api/forward.ts). */
import { asSvcError, SvcError, systemCode } from "../../base/errors.ts";
import { decodeForwardQuery, type ForwardQuery } from "../../api/forward.ts";
import { datagrams } from "../../wire/datagrams.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { Idle } from "../../wire/idle.ts";
import { relay } from "../../wire/relay.ts";
import { SocketStream } from "../../wire/socket_stream.ts";
import type { ManagementDeps } from "../deps.ts";
import { Query } from "../query.ts";
import type { Context, Route } from "../route.ts";
import { API_PREFIX } from "./health.ts";

const PARAMETERS = ["port", "protocol"];

const IDLE_MS = 120_000;

/** The instance's connection broke. */
function instanceFailure(error: unknown, name: string, { port }: ForwardQuery): SvcError {
  const { cause = error } = asSvcError(error);
  const reset = ["ECONNRESET", "EPIPE"].includes(systemCode(cause) ?? "");
  const why = reset ? "the workload broke the connection off" : asSvcError(error).message;
  return new SvcError("upstream_failed", `Cannot go on with port ${port} of ${name}: ${why}`, {
    cause,
    help: `see \`svc status ${name}\` and \`svc logs ${name}\``,
  });
}

/** Until both directions have ended, one of the two sides has broken, or nothing more comes. */
async function join(
  stream: SocketStream,
  instance: Duplex,
  { protocol }: ForwardQuery,
  idleMs: number,
): Promise<void> {
  if (protocol === "tcp") return await relay(stream, instance);
  let ended = false;
  using idle = new Idle(idleMs, () => {
    ended = true;
    stream.end();
    instance.reset();
  });
  try {
    await relay(datagrams(stream), instance, () => idle.touch());
  } catch (error) {
    if (!ended) throw error;
  }
}

export function forwardRoutes(deps: ManagementDeps): Route[] {
  function upgrade({ request, connection, params: { name } }: Context) {
    if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      throw new SvcError(
        "argument_invalid",
        `Cannot forward to ${name}: the request is no WebSocket`,
        { help: "use `svc port-forward`, or a WebSocket client" },
      );
    }
    return connection.upgrade(request);
  }

  async function forward(context: Context): Promise<Response> {
    const { request, url, params: { name } } = context;
    new Query(url, PARAMETERS);
    const query = decodeForwardQuery(url.searchParams);
    context.about = `${name}:${query.port}/${query.protocol}`;
    const { stopping } = deps.lifecycle;
    const backend = await deps.deploy.backend();
    const instance = await backend.dial(name, query.port, query.protocol, {
      signal: AbortSignal.any([request.signal, stopping]),
    });
    let upgraded: ReturnType<typeof upgrade>;
    try {
      upgraded = upgrade(context);
    } catch (error) {
      instance.reset();
      throw error;
    }
    const { socket, response } = upgraded;
    const stream = new SocketStream({
      lost: (why) => new SvcError("cancelled", `Cannot forward to ${name}: ${why}`),
      told: (why) => instanceFailure(why, name, query),
      beatMs: deps.forward?.beatMs,
      promptly: true,
    });
    const opened = Promise.withResolvers<void>();
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      stream.attach(socket);
      opened.resolve();
    };
    socket.onmessage = ({ data }) =>
      stream.receive(typeof data === "string" ? data : new Uint8Array(data));
    socket.onclose = (event) => {
      stream.lost(event);
      opened.resolve();
    };
    void stream.closed.then((broken) => {
      if (broken === undefined) return;
      context.outcome = asSvcError(broken).code;
      // What a client that went away has sent is for nobody, even where the workload does not take it.
      instance.reset();
    });
    const end = deps.lifecycle.begin();
    const stop = () =>
      stream.fail(
        new SvcError("unavailable", `Cannot forward to ${name}: the server is shutting down`),
      );
    stopping.addEventListener("abort", stop, { once: true });
    if (stopping.aborted) stop();
    opened.promise.then(() => join(stream, instance, query, deps.forward?.idleMs ?? IDLE_MS))
      .catch(() => {/* the stream has told it */})
      .finally(() => {
        stopping.removeEventListener("abort", stop);
        instance.reset();
        end();
      });
    return response;
  }

  return [{
    method: "GET",
    path: `${API_PREFIX}/deployments/{name}/forward`,
    action: "deploy",
    help:
      "WebSocket: a connection to a port of a running instance. Binary messages are bytes, an empty one " +
      'the end of its direction; text messages acknowledge (`{"ack":n}`, at most 1 MiB is on the way) ' +
      "or tell an error. UDP: datagrams, each behind its length in two bytes. Query: `port` and " +
      "`protocol` (tcp or udp).",
    handler: forward,
  }];
}
