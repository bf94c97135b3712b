/**
 * Builds relayed to a builder (SPEC "Builder delegation behaviour", rule 9). This server has already authorized
 * them.
 */
import {
  CALLER_HEADER,
  type Logins,
  LOGINS_HEADER,
  loginsHeader,
  NO_PULL_HEADER,
  readLogins,
  REGISTRY_HEADER,
} from "../../api/build_logins.ts";
import type { Problem } from "../../api/problem.ts";
import { SvcError } from "../../base/errors.ts";
import { responseError } from "../../client/problems.ts";
import { kindOf } from "../../client/ours.ts";
import { HELLO_HEADER } from "../../wire/attached/hello.ts";
import { cacheOwner } from "../build_request.ts";
import type { ManagementDeps } from "../deps.ts";
import { isLoopback } from "../hosts.ts";
import type { Context, Route } from "../route.ts";
import { type Body, contextBody } from "./build_body.ts";

/** Bytes that may wait for the builder before reading from the caller pauses. */
const HIGH_WATER = 4 << 20;
/** Bytes that may wait for a caller that does not read; flow control keeps an honest builder far below. */
const TOO_MUCH = 64 << 20;
const POLL_MS = 5;

/** Header fields that are relayed; all others belong to one connection or to this server. */
const REQUEST_HEADERS = ["content-type", "content-length", "accept"];
const RESPONSE_HEADERS = ["content-type", "content-length", "cache-control", "x-accel-buffering"];

function unreachable(target: URL, cause: unknown): SvcError {
  return new SvcError(
    "upstream_failed",
    `Cannot build: the builder at ${target.host} does not answer`,
    { cause, help: "check SVC_BUILDER_URL, and that the builder runs" },
  );
}

/** Whether an svc server can have sent the answer: its errors are JSON, and it sends neither pages nor redirects. */
function isOurs({ ok, status, headers }: Response): boolean {
  const type = headers.get("content-type") ?? "";
  return ok ? !type.includes("html") : status >= 400 && type.includes("json");
}

/**
 * The error where the builder refuses this server, or is not a builder: the caller cannot change that. Undefined
 * for every other answer, which is relayed to the caller; that includes a refusal of images that the builder
 * may not read.
 */
async function refusal(target: URL, response: Response): Promise<SvcError | undefined> {
  const { status } = response;
  if (status !== 401 && status !== 403) {
    if (isOurs(response)) return undefined;
    await response.body?.cancel();
    return new SvcError(
      "upstream_failed",
      `Cannot build: what answers at ${target.host} is not a builder: it answered ${
        kindOf(response)
      }`,
      { help: "check SVC_BUILDER_URL on the server" },
    );
  }
  const problem: Partial<Problem> = await response.clone().json().catch(() => ({}));
  if (problem.info?.action === "pull") return undefined;
  await response.body?.cancel();
  return new SvcError(
    "upstream_failed",
    `Cannot build: the builder at ${target.host} ${
      status === 401 ? "asks this server for a credential" : "does not let this server build"
    }${problem.detail ? `: ${problem.detail}` : ""}`,
    {
      help:
        "set SVC_BUILDER_TOKEN on the server to a token that the builder accepts; the caller's own is not " +
        "asked for there",
    },
  );
}

/** This server's own credential at the builder. */
function credential({ username, password }: URL): Record<string, string> {
  const token = decodeURIComponent(password || username);
  return token === "" ? {} : { authorization: `Bearer ${token}` };
}

/** The request's URL at the builder, with the same path and query. */
function place(target: URL, { url }: Context, scheme: "http" | "ws"): string {
  const secure = target.protocol === "wss:" || target.protocol === "https:" ? "s" : "";
  const base = target.pathname.replace(/\/+$/, "");
  return `${scheme}${secure}://${target.host}${base}${url.pathname}${url.search}`;
}

function pick(from: Headers, names: readonly string[]): Headers {
  const headers = new Headers();
  for (const name of names) {
    const value = from.get(name);
    if (value !== null) headers.set(name, value);
  }
  return headers;
}

/** The parts of this server that relaying needs besides the request. */
export type RelayDeps = Pick<ManagementDeps, "access" | "internal" | "registryHost" | "isOwnHost">;

/**
 * Header fields that make the builder act as this server would: the registry that names without a registry part
 * mean, the caller's logins, and a short-lived credential for this server's own registry, where the builder
 * publishes. The caller has already been allowed to build. Throws `argument_invalid`.
 */
function addedHeaders(
  { request, url, identity }: Context,
  target: URL,
  { access, internal, registryHost, isOwnHost }: RelayDeps,
): Record<string, string> {
  const own = registryHost().replace(/^https?:\/\//, "");
  const given = readLogins(request.headers.get(LOGINS_HEADER));
  const logins: Logins = {};
  const mayPull = access.allows(identity, "pull");
  if (internal) {
    // The builder reads images that the caller names: it may read no more than the caller may.
    const login = { username: "svc", password: internal.token(mayPull ? "push" : "deliver") };
    // Images may be named by the address that the caller uses. Its Host field can say anything: under a name that is not
    // this server's, the builder would send the credential to somebody else.
    for (const host of [own, ...isOwnHost(url.host) ? [url.host] : []]) logins[host] = login;
  }
  for (const [host, login] of given ?? []) logins[host] = login;
  // On another machine "localhost" would mean the builder itself: there SVC_ADVERTISE_REGISTRY has to name this
  // server.
  const reachable = isLoopback(target.host) || !isLoopback(own);
  const registry = request.headers.get(REGISTRY_HEADER) ?? (reachable ? own : undefined);
  const owner = cacheOwner(access, identity, request.headers);
  return {
    ...credential(target),
    ...!mayPull && { [NO_PULL_HEADER]: "1" },
    ...owner !== undefined && { [CALLER_HEADER]: owner },
    ...registry !== undefined && { [REGISTRY_HEADER]: registry },
    ...Object.keys(logins).length > 0 && { [LOGINS_HEADER]: loginsHeader(logins) },
  };
}

/** Relays the request; gives the builder's answer, whatever its status. Throws `upstream_failed`. */
async function relayRequest(
  context: Context,
  target: URL,
  deps: RelayDeps,
  body?: Pick<Body, "stream">,
): Promise<Response> {
  const { request, signal } = context;
  const headers = pick(request.headers, REQUEST_HEADERS);
  for (const [name, value] of Object.entries(addedHeaders(context, target, deps))) {
    headers.set(name, value);
  }
  let failure: unknown;
  const watched = body && ReadableStream.from((async function* () {
    try {
      yield* body.stream;
    } catch (error) {
      failure = error;
      throw error;
    }
  })());
  let response: Response;
  try {
    response = await fetch(place(target, context, "http"), {
      method: request.method,
      headers,
      body: watched as ReadableStream<Uint8Array<ArrayBuffer>> | undefined,
      redirect: "manual",
      signal,
    });
  } catch (error) {
    signal.throwIfAborted();
    throw failure ?? unreachable(target, error);
  }
  const refused = await refusal(target, response);
  if (refused) throw refused;
  return new Response(response.body, {
    status: response.status,
    headers: pick(response.headers, RESPONSE_HEADERS),
  });
}

/** Methods of the server's own sockets that the standard does not have: see the package `ws`. */
type Pausable = WebSocket & { pause?(): void; resume?(): void };

/** Codes that a program may close with. */
const mayClose = (code: number) => code === 1000 || code >= 3000 && code <= 4999;

function closeAs(socket: WebSocket, { code, reason }: CloseEvent): void {
  if (socket.readyState > WebSocket.OPEN) return;
  if (mayClose(code)) socket.close(code, reason);
  else socket.close();
}

async function drained(socket: WebSocket): Promise<void> {
  while (socket.bufferedAmount > HIGH_WATER && socket.readyState === WebSocket.OPEN) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Bytes from the caller to the builder; the caller is paused while the builder does not take them. */
function forward(from: Pausable, to: WebSocket): void {
  let waiting = false;
  from.onmessage = ({ data }) => {
    if (to.readyState !== WebSocket.OPEN) return;
    to.send(data);
    if (to.bufferedAmount <= HIGH_WATER || waiting) return;
    waiting = true;
    from.pause?.();
    drained(to).then(() => {
      waiting = false;
      from.resume?.();
    });
  };
}

/** Connects to the builder. Messages that the builder sends meanwhile are kept for {@linkcode splice}. */
async function dial(
  target: URL,
  context: Context,
  deps: RelayDeps,
): Promise<{ socket: WebSocket; early: unknown[] }> {
  // The caller's hello is passed on: the session is between caller and builder.
  const hello = Object.fromEntries(pick(context.request.headers, [HELLO_HEADER]));
  const headers = { ...addedHeaders(context, target, deps), ...hello };
  const socket = new WebSocket(place(target, context, "ws"), { headers });
  socket.binaryType = "arraybuffer";
  const early: unknown[] = [];
  const opened = Promise.withResolvers<void>();
  const abort = () => opened.reject(context.signal.reason);
  context.signal.addEventListener("abort", abort, { once: true });
  socket.onmessage = ({ data }) => void early.push(data);
  socket.onopen = () => opened.resolve();
  socket.onerror = (event) => opened.reject((event as ErrorEvent).error ?? event);
  socket.onclose = (event) => opened.reject(event);
  try {
    await opened.promise;
    return { socket, early };
  } catch (error) {
    socket.close();
    context.signal.throwIfAborted();
    // A failed handshake has no readable reason: an ordinary request asks for it.
    const answer = await fetch(place(target, context, "http"), {
      headers: { ...credential(target), ...hello },
      redirect: "manual",
      signal: context.signal,
    }).catch(() => undefined);
    const refused = answer && await refusal(target, answer);
    const said = answer && !refused ? await responseError(answer, target.host) : undefined;
    // Builder and caller have no protocol version in common.
    if (said?.code === "unsupported") throw said;
    throw refused ?? unreachable(target, error);
  } finally {
    context.signal.removeEventListener("abort", abort);
  }
}

/**
 * Joins the caller's WebSocket with one to the builder, message by message, without reading the messages.
 * Resolves `ended` when both are closed.
 */
async function relaySocket(
  context: Context,
  target: URL,
  deps: RelayDeps,
): Promise<{ response: Response; ended: Promise<void> }> {
  const { socket: builder, early } = await dial(target, context, deps);
  let accepted: { socket: WebSocket; response: Response };
  try {
    accepted = context.connection.upgrade(context.request);
  } catch (error) {
    builder.close();
    throw error;
  }
  const caller = accepted.socket as Pausable;
  caller.binaryType = "arraybuffer";
  const closed = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  forward(caller, builder);
  const back = (data: unknown) => {
    if (caller.readyState !== WebSocket.OPEN) return;
    caller.send(data as ArrayBuffer);
    if (caller.bufferedAmount > TOO_MUCH) {
      caller.close();
      builder.close();
    }
  };
  for (const data of early) back(data);
  builder.onmessage = ({ data }) => back(data);
  caller.onclose = (event) => {
    closeAs(builder, event);
    closed[0].resolve();
  };
  builder.onclose = (event) => {
    closeAs(caller, event);
    closed[1].resolve();
  };
  builder.onerror = () => {/* its close follows */};
  caller.onerror = () => {/* its close follows */};
  if (builder.readyState > WebSocket.OPEN) {
    caller.close();
    closed[1].resolve();
  }
  const ended = Promise.all(closed.map(({ promise }) => promise)).then(() => {});
  return { response: accepted.response, ended };
}

/**
 * Wraps build handlers: a build runs here where this process builds, else it is relayed. `deps.delegation`
 * decides for each request.
 */
export function delegating(deps: ManagementDeps): (own: Route["handler"]) => Route["handler"] {
  const { delegation, lifecycle, limits } = deps;
  async function relay(context: Context, target: URL): Promise<Response> {
    const { request } = context;
    if (request.headers.get("upgrade")?.toLowerCase() === "websocket") {
      const { response, ended } = await relaySocket(context, target, deps);
      ended.finally(lifecycle.begin());
      return response;
    }
    if (request.method === "GET") return await relayRequest(context, target, deps);
    const body = contextBody(request, limits.maxBuildContextBytes);
    try {
      return await relayRequest(context, target, deps, body);
    } catch (error) {
      await body.discard();
      throw error;
    }
  }
  return (own) => async (context) => {
    const target = await delegation?.target();
    return target ? await relay(context, target) : await own(context);
  };
}
