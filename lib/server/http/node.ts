/** Requests that node's parser reads: all that connection.ts does not answer itself. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Buffer } from "node:buffer";
import type { Reply } from "../../api/reply.ts";
import { SvcError } from "../../base/errors.ts";
import { bodyStream } from "./body.ts";
import {
  contentOf,
  Ending,
  FAILED,
  type Handler,
  isLive,
  PeerConnection,
  plainReply,
} from "./exchange.ts";
import type { Peer, Peers } from "./peer.ts";
import { hostOf, ListenerRequest, type Source } from "./request.ts";
import { send } from "./send.ts";
import { respond } from "./respond.ts";
import { accept, isUpgraded, loadAcceptor } from "./websocket.ts";

/** How long an unread rest of a body may still arrive, so that the client reads the answer. */
const LINGER_MS = 2000;

export interface MessageSourceOptions {
  message: IncomingMessage;
  scheme: "http" | "https";
  ending: Ending;
  body: () => ReadableStream<Uint8Array<ArrayBuffer>>;
}

class MessageSource implements Source {
  constructor(private readonly options: MessageSourceOptions) {}

  get method(): string {
    return this.options.message.method ?? "GET";
  }

  get target(): string {
    return this.options.message.url ?? "/";
  }

  get scheme(): "http" | "https" {
    return this.options.scheme;
  }

  header(name: string): string | undefined {
    const value = this.options.message.headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  headers(): [string, string][] {
    const { rawHeaders } = this.options.message;
    const pairs: [string, string][] = [];
    for (let n = 0; n < rawHeaders.length; n += 2) pairs.push([rawHeaders[n], rawHeaders[n + 1]]);
    return pairs;
  }

  body(): ReadableStream<Uint8Array<ArrayBuffer>> | null {
    return hasBody(this.options.message) ? this.options.body() : null;
  }

  signal(): AbortSignal {
    return this.options.ending.signal;
  }
}

function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || length !== undefined && length !== "0";
}

/** The listener sets these fields itself. */
const OURS = new Set(["connection", "transfer-encoding", "keep-alive"]);

function fieldsOf(pairs: string[]): string[] {
  for (let n = 0; n < pairs.length; n += 2) {
    if (OURS.has(pairs[n].toLowerCase())) pairs.splice(n, 2);
  }
  return pairs;
}

function countOf({ rawHeaders }: IncomingMessage, name: string): number {
  let count = 0;
  for (let n = 0; n < rawHeaders.length; n += 2) {
    if (rawHeaders[n].toLowerCase() === name) count++;
  }
  return count;
}

/**
 * The refusal of a request that node's parser accepts and other servers may read differently: another version
 * of HTTP, no host or several (RFC 9112 3.2), no path or one with backslashes (RFC 3986 has none), or a
 * transfer coding other than chunked (RFC 9112 6.1).
 */
function refusalOf(source: Source, message: IncomingMessage): Reply | undefined {
  const { httpVersion, headers } = message;
  if (httpVersion !== "1.1" && httpVersion !== "1.0") {
    return plainReply(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  const isNamed = hostOf(source) !== undefined || httpVersion === "1.0";
  const { target } = source;
  const isAddressed = !target.includes("\\") && (target.startsWith("/") || URL.canParse(target));
  if (!isNamed || !isAddressed || countOf(message, "host") > 1) {
    return plainReply(400, "the request names no host or several, or no path");
  }
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "chunked") {
    return plainReply(501, "a body may be chunked, and have no other transfer coding");
  }
  return undefined;
}

export interface NodeOptions {
  handler: Handler;
  peers: Peers;
  scheme: "http" | "https";
}

/** The last request of each connection, and how many have not ended. */
const turns = new WeakMap<Socket, { last: Promise<void>; count: number }>();

/**
 * Resolves when the connection's earlier requests have ended; call the result when this request ends. Node
 * keeps reading: without this, pipelined requests would run at the same time, even those behind the
 * connection's last answer.
 */
async function turnOf(socket: Socket): Promise<() => void> {
  const turn = turns.get(socket) ?? { last: Promise.resolve(), count: 0 };
  turns.set(socket, turn);
  const { promise, resolve } = Promise.withResolvers<void>();
  const before = turn.last;
  turn.last = promise;
  if (++turn.count > 1) {
    socket.pause();
    await before;
    if (turn.count === 1) socket.resume();
  }
  return () => {
    turn.count--;
    resolve();
  };
}

export async function serveMessage(
  message: IncomingMessage,
  response: ServerResponse,
  options: NodeOptions & { awaitsContinue?: boolean },
): Promise<void> {
  const peer = options.peers.of(message.socket as Socket);
  if (!peer) return void message.socket.destroy();
  const end = await turnOf(peer.socket);
  try {
    if (!peer.socket.destroyed && !peer.last) await serveNow(message, response, peer, options);
  } finally {
    end();
  }
}

/** Ends the answer. Resolves when all of it has been passed on, or the connection has closed. */
function ended(response: ServerResponse, peer: Peer): Promise<void> {
  return new Promise((resolve) => {
    const settled = peer.onClose(resolve);
    response.end(() => {
      settled();
      resolve();
    });
  });
}

async function serveNow(
  message: IncomingMessage,
  response: ServerResponse,
  peer: Peer,
  options: NodeOptions & { awaitsContinue?: boolean },
): Promise<void> {
  const { peers, handler, scheme } = options;
  const ending = new Ending();
  const receivedBefore = peer.received;
  peer.phase = "request";
  const forget = peer.onClose(() => ending.gone());
  let wanted = false;
  const source = new MessageSource({
    message,
    scheme,
    ending,
    body: () =>
      bodyStream(message, peer, () => {
        wanted = true;
        if (options.awaitsContinue) response.writeContinue();
      }),
  });
  try {
    const connection = new PeerConnection(peer, noUpgrade);
    const refused = refusalOf(source, message);
    const answer = refused ??
      await handler(new ListenerRequest(source), connection, ending.add).catch(() => FAILED);
    const { pairs, content } = await contentOf(answer, source.method);
    if (message.socket.destroyed) {
      if (content instanceof ReadableStream) await content.cancel();
      return;
    }
    const live = isLive(content, pairs);
    peer.phase = live ? "live" : "request";
    // A client that waits for "100 Continue" and gets an answer instead may send the body or leave it out. The
    // next bytes could be the body or a request, so the connection closes.
    const ambiguous = options.awaitsContinue && !wanted;
    peer.last = Boolean(ambiguous || refused || peers.closing);
    response.writeHead(answer.status, [
      ...fieldsOf(pairs),
      ...peer.last ? ["connection", "close"] : [],
    ]);
    // A stream's first bytes may come late; the client waits for the head.
    if (live) response.flushHeaders();
    await send(response, peer, content, ending.count);
    ending.whole = true;
    await ended(response, peer);
    if (!message.complete && !ambiguous) await linger(message, peer);
  } catch {
    // Part of the answer has left: only a broken connection tells the client that the answer is not whole.
    message.socket.destroy();
  } finally {
    forget();
    ending.received = peer.received - receivedBefore;
    ending.done();
    peers.rest(peer);
  }
}

export function noUpgrade(): never {
  throw new SvcError("argument_invalid", "Cannot upgrade: the request did not ask for it");
}

/** A request for another protocol. The handler makes it a WebSocket, or its answer closes the connection. */
export async function serveUpgrade(
  message: IncomingMessage,
  head: Buffer,
  { peers, handler, scheme }: NodeOptions,
): Promise<void> {
  const socket = message.socket as Socket;
  const peer = peers.of(socket);
  if (!peer) return void socket.destroy();
  await turnOf(socket);
  if (socket.destroyed || peer.last) return void socket.destroy();
  const ending = new Ending();
  peer.phase = "request";
  peer.onClose(() => {
    ending.gone();
    ending.done();
  });
  socket.on("error", () => {/* "close" follows */});
  const source = new MessageSource({ message, scheme, ending, body: noUpgrade });
  try {
    const acceptor = await loadAcceptor();
    const connection = new PeerConnection(peer, () => accept(acceptor, message, head));
    // With a body, the bytes after the head are not those of the other protocol.
    const answer = refusalOf(source, message) || hasBody(message)
      ? plainReply(400, "the request cannot be upgraded")
      : await handler(new ListenerRequest(source), connection, ending.add).catch(() => FAILED);
    if (isUpgraded(answer)) {
      ending.whole = true;
      peer.phase = "live";
      return;
    }
    await respond(peer, answer, { method: source.method, ending, last: true });
    socket.end();
  } catch {
    socket.destroy();
  }
  ending.done();
}

/** Reads and drops the rest of a body; a client that does not stop sending is cut off. */
function linger(message: IncomingMessage, peer: Peer): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => message.socket.destroy(), LINGER_MS);
    const over = () => {
      clearTimeout(timer);
      forget();
      resolve();
    };
    const forget = peer.onClose(over);
    message.once("end", over);
    message.on("error", () => {/* "close" follows */});
    message.resume();
  });
}
