/**
 * Leads a request from the listener to a route's handler and its answer back: identity, errors, the access log.
 * Nothing that a handler does can end the server or leave a request without an answer.
 */
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { Access } from "./access.ts";
import type { Answered } from "./activity/entry.ts";
import { accessLine } from "./access_log.ts";
import { describeError, errorResponse } from "./error_response.ts";
import { type IsOwnName, refuseForeignPage } from "./foreign_page.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { Handler } from "./listener.ts";
import { ListenerRequest } from "./http/request.ts";
import { Reply } from "../api/reply.ts";
import type { RefusePeer } from "./own_networks.ts";
import { requireKnown } from "./query.ts";
import type { Connection, Identity, Route } from "./route.ts";
import { ANONYMOUS } from "./access.ts";
import type { Router } from "./router.ts";

export interface ServerOptions {
  router: Router;
  access: Access;
  lifecycle: Lifecycle;
  log: Logger;
  /** Absent: every host name is accepted from browsers, even without a credential. */
  isOwnName?: IsOwnName;
  /** Absent: no peer is refused for its address. */
  refusePeer?: RefusePeer;
  /** Called with each request that a route answered. */
  note?: (answered: Answered) => void;
}

/** True for callers who gave no credential. */
const isAnybody = ({ method }: Identity) => method === undefined || method === "anonymous";

/** Health checks come every few seconds: their lines have level debug. */
const QUIET = new Set(["/healthz", "/readyz"]);

let sequence = 0;
const boot = crypto.randomUUID().slice(0, 8);

/** A caller's request id is kept where it is a plain word, so that its log and ours can be joined. */
function requestId(request: Request): string {
  const given = request.headers.get("x-request-id");
  if (given !== null && /^[\w.:-]{1,64}$/.test(given)) return given;
  return `${boot}-${(sequence++).toString(36)}`;
}

/** One request; the costly parts are made on first use. */
class Exchange {
  readonly id: string;
  readonly path: string;
  identity = ANONYMOUS;
  params: Record<string, string> = {};
  route: Route | undefined;
  /** Code of the error that the client was told, also when it was told in a stream. */
  outcome: string | undefined;
  untilGone: boolean | undefined;
  about: string | undefined;
  #url: URL | undefined;
  #log: Logger | undefined;

  constructor(
    readonly request: Request,
    readonly connection: Connection,
    private readonly base: Logger,
  ) {
    this.id = requestId(request);
    this.path = request instanceof ListenerRequest ? request.path : this.url.pathname;
  }

  get url(): URL {
    return this.#url ??= new URL(this.request.url);
  }

  get log(): Logger {
    return this.#log ??= this.base.with({ request: this.id });
  }

  get signal(): AbortSignal {
    return this.request.signal;
  }
}

/** Finds the route of a request. Throws `method_not_allowed` or `not_found`. */
function routeOf(router: ServerOptions["router"], exchange: Exchange): Route {
  const { request: { method }, path: pathname } = exchange;
  const match = router.match(method, pathname);
  if (match.kind === "found") {
    exchange.params = match.params;
    exchange.route = match.route;
    return match.route;
  }
  if (match.kind === "method") {
    throw new SvcError(
      "method_not_allowed",
      `Cannot ${method} ${pathname}: it takes ${match.allow.join(", ")}`,
      { detail: { allow: match.allow } },
    );
  }
  throw new SvcError("not_found", `Cannot ${method} ${pathname}: there is no such path`, {
    help: "the paths are in the HTTP API reference",
  });
}

async function answerOf(options: ServerOptions, exchange: Exchange): Promise<Response> {
  const { router, access, lifecycle } = options;
  const { request, connection, path } = exchange;
  const row = routeOf(router, exchange);
  if (lifecycle.phase === "draining" && !QUIET.has(path)) {
    throw new SvcError("unavailable", "Cannot take the request: the server is shutting down");
  }
  if (!row.open) {
    const refusing = options.refusePeer?.(row, connection.remote);
    if (refusing) await refusing;
    refuseForeignPage(request);
    const found = access.authenticate(request, connection, row);
    const identity = found instanceof Promise ? await found : found;
    if (!identity) {
      throw new SvcError(
        "unauthorized",
        `Cannot ${request.method} ${path}: a credential is needed`,
      );
    }
    exchange.identity = identity;
    // A request that needs no credential could also come from another site's page.
    if (isAnybody(identity)) refuseForeignPage(request, options.isOwnName);
    access.authorize(row, identity, request);
  }
  if (row.query) requireKnown(exchange.url, Object.keys(row.query));
  return await row.handler(exchange);
}

export function createHandler(options: ServerOptions): Handler {
  const { access, lifecycle } = options;
  return async (request, connection, ended) => {
    const started = performance.now();
    const end = lifecycle.begin();
    const exchange = new Exchange(request, connection, options.log);
    const { path } = exchange;
    let response: Response;
    try {
      response = await answerOf(options, exchange);
    } catch (error) {
      const described = describeError(error, exchange);
      response = errorResponse(described, path, () => access.challenge(request, path));
    }
    ended((ended) => {
      end();
      const ms = performance.now() - started;
      const level = QUIET.has(path) ? "debug" : "info";
      accessLine(options.log, level, exchange, { response, ended, ms });
      const { route } = exchange;
      if (!route || !options.note) return;
      options.note({ context: exchange, route, status: response.status, ended, ms });
    });
    if (response instanceof Reply) return response.with("x-request-id", exchange.id);
    response.headers.set("x-request-id", exchange.id);
    return response;
  };
}
