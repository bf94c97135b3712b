/** `GET /.svc/v1/deployments/{name}/forward`: a port of an instance on a WebSocket (lib/api/forward.ts). */
import { endpoint } from "../../api/endpoints.ts";
import { asSvcError, SvcError, systemCode } from "../../base/errors.ts";
import { decodeForwardQuery, type ForwardQuery } from "../../api/forward.ts";
import { datagrams } from "../../wire/datagrams.ts";
import type { Duplex } from "../../wire/duplex.ts";
import type { Attached } from "../../wire/attached/session.ts";
import { Idle } from "../../wire/idle.ts";
import { relay } from "../../wire/relay.ts";
import { accept } from "../attached/accept.ts";
import type { ManagementDeps } from "../deps.ts";
import type { Context, Route } from "../route.ts";

const IDLE_MS = 120_000;

/** The error where the instance's connection broke. */
function instanceFailure(error: unknown, name: string, { port }: ForwardQuery): SvcError {
  const { cause = error } = asSvcError(error);
  const reset = ["ECONNRESET", "EPIPE"].includes(systemCode(cause) ?? "");
  const why = reset ? "the workload broke the connection off" : asSvcError(error).message;
  return new SvcError("upstream_failed", `Cannot go on with port ${port} of ${name}: ${why}`, {
    cause,
    help: `see \`svc status ${name}\` and \`svc logs ${name}\``,
  });
}

interface Joined {
  session: Attached;
  instance: Duplex;
  query: ForwardQuery;
  /** Milliseconds without a datagram after which a UDP flow ends. */
  idleMs: number;
  /** The instance broke its connection. */
  onBroken: (error: unknown) => void;
}

/** Relays until both directions have ended, one side has broken, or no more datagrams come. */
async function join({ session, instance, query, idleMs, onBroken }: Joined): Promise<void> {
  const stream = session.open("port");
  /** The client has gone, or the flow has ended: after that a failure of the instance is not reported. */
  let over = false;
  let writing = 0;
  const gone = (error: unknown): never => {
    over = true;
    throw error;
  };
  const client: Duplex = {
    read: () => stream.read().catch(gone),
    write: (bytes) => {
      writing++;
      return stream.write(bytes).catch(gone).finally(() => writing--);
    },
    closeWrite: () => stream.closeWrite(),
    reset: (why) => why === undefined || over ? undefined : onBroken(why),
  };
  if (query.protocol === "tcp") {
    await relay(client, instance);
    return await session.close();
  }
  using idle = new Idle(idleMs, () => {
    over = true;
    instance.reset();
    if (writing > 0) session.drop("nobody takes the datagrams");
    else void stream.closeWrite().then(() => session.close(), () => {/* the client has gone */});
  });
  await relay(datagrams(client), instance, () => idle.touch());
  await session.close();
}

export function forwardRoutes(deps: ManagementDeps): Route[] {
  function begin(context: Context, query: ForwardQuery, instance: Duplex): Response {
    const { name } = context.params;
    const fail = (session: Attached, error: SvcError) => {
      context.outcome ??= error.code;
      session.fail(error);
    };
    const stopped = new SvcError(
      "unavailable",
      `Cannot forward to ${name}: the server is shutting down`,
    );
    const { session, response } = accept(context, deps.lifecycle, {
      attempt: `forward to ${name}`,
      help: "use `svc port-forward`",
      beatMs: deps.forward?.beatMs,
      onStop: (session) => fail(session, stopped),
    });
    void session.closed.then((broken) => {
      if (broken) context.outcome ??= "cancelled";
      // The client has gone: data that the workload has not taken yet is dropped.
      if (broken) instance.reset();
    });
    const idleMs = deps.forward?.idleMs ?? IDLE_MS;
    const onBroken = (error: unknown) => fail(session, instanceFailure(error, name, query));
    join({ session, instance, query, idleMs, onBroken })
      .catch((error) => session.fail(asSvcError(error)))
      .finally(() => instance.reset());
    return response;
  }

  async function forward(context: Context): Promise<Response> {
    const { request, url, params: { name } } = context;
    const query = decodeForwardQuery(url.searchParams);
    context.about = `${name}:${query.port}/${query.protocol}`;
    const backend = await deps.deploy.backend();
    const instance = await backend.dial(name, query.port, query.protocol, {
      signal: AbortSignal.any([request.signal, deps.lifecycle.stopping]),
    });
    try {
      return begin(context, query, instance);
    } catch (error) {
      instance.reset();
      throw error;
    }
  }

  return [{
    ...endpoint("GET /deployments/{name}/forward"),
    action: "deploy",
    help:
      "Attached session: a connection to a port of a running instance, which is the server's stream `port`. " +
      "UDP: datagrams, each behind its length in two bytes.",
    handler: forward,
  }];
}
