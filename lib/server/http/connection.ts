/**
 * A plain connection from its first byte. Simple requests (head.ts) and uploads of blobs are answered here. The
 * first request of any other kind hands the connection to node's server, with the bytes read so far, for the
 * rest of its life.
 */
import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import { canLend } from "../../base/node_hooks.ts";
import { Ending, FAILED, type Handler, PeerConnection } from "./exchange.ts";
import { parseBodyHead, parseSimpleHead, type SimpleHead } from "./head.ts";
import type { Peers } from "./peer.ts";
import { ListenerRequest, type Source } from "./request.ts";
import { noUpgrade } from "./node.ts";
import { respond } from "./respond.ts";
import { readAhead, WireBody } from "./wire_body.ts";

/** Longer heads are left to node's server, which refuses them. */
const HEAD_BYTES = 16 * 1024;

/** Requests whose bodies are read here: blobs, whose bytes a store may take from the connection. */
const UPLOAD = /^\/v2\/[^?]+\/blobs\/uploads\//;
const SIMPLE = ["GET /", "HEAD "];
const BODIED = ["PATCH", "POST ", "PUT /"];
const CONTINUE = Buffer.from("HTTP/1.1 100 Continue\r\n\r\n");

class SimpleSource implements Source {
  constructor(
    private readonly head: SimpleHead,
    readonly scheme: Source["scheme"],
    private readonly ending: Ending,
    private readonly content?: WireBody,
  ) {}

  get method(): string {
    return this.head.method;
  }

  get target(): string {
    return this.head.target;
  }

  header(name: string): string | undefined {
    return this.head.fields.get(name);
  }

  headers(): [string, string][] {
    return [...this.head.fields];
  }

  body(): WireBody["stream"] | null {
    return this.content?.stream ?? null;
  }

  signal(): AbortSignal {
    return this.ending.signal;
  }
}

export interface Served {
  handler: Handler;
  peers: Peers;
  scheme: Source["scheme"];
  /** Hands the connection to node's server; `head` holds the bytes that were read and not served. */
  handOver: (head: Buffer) => void;
}

/** Serves a new connection. */
export function serveConnection(socket: Socket, served: Served): void {
  const peer = served.peers.add(socket);
  const connection = new PeerConnection(peer, noUpgrade);
  let unread: Buffer | undefined;
  let ending: Ending | undefined;
  let body: WireBody | undefined;

  const ignore = () => {/* "close" follows and tells everybody */};
  const forget = peer.onClose(() => ending?.gone());
  // A client that closes its side counts as gone, as in node's server.
  const onEnd = () => socket.destroy();

  const onData = (bytes: Buffer) => {
    if (body) return body.receive(bytes);
    unread = unread ? Buffer.concat([unread, bytes]) : bytes;
    if (!ending) advance();
    else if (unread.length > HEAD_BYTES) socket.pause();
  };

  function advance(): void {
    if (!unread || socket.destroyed) return;
    // Bytes that cannot begin a request, such as a TLS hello, are handed over at once: their client waits for
    // an answer.
    const begin = unread.toString("latin1", 0, 5);
    const bodied = BODIED.some((text) => text.startsWith(begin));
    if (bodied ? !canLend(socket) : !SIMPLE.some((text) => text.startsWith(begin))) {
      return handOver(unread);
    }
    const end = unread.indexOf("\r\n\r\n");
    if (end < 0 && unread.length <= HEAD_BYTES) {
      if (peer.phase === "idle") peer.phase = "head";
      return;
    }
    if (bodied) return advanceBody(unread, end + 4);
    // The bytes are one head, and nothing follows it.
    const whole = end === unread.length - 4;
    const head = whole ? parseSimpleHead(unread.toString("latin1")) : undefined;
    if (!head) return handOver(unread);
    unread = undefined;
    answer(head).catch(() => socket.destroy());
  }

  function advanceBody(bytes: Buffer, from: number): void {
    const head = from > 3 ? parseBodyHead(bytes.toString("latin1", 0, from)) : undefined;
    if (!head || !UPLOAD.test(head.target)) return handOver(bytes);
    const prefix = bytes.subarray(from);
    if (head.length === 0 && prefix.length > 0) return handOver(bytes);
    unread = undefined;
    if (head.length !== 0) {
      const begin = () => {
        if (head.awaitsContinue) socket.write(CONTINUE);
      };
      body = new WireBody(peer, { prefix, length: head.length, begin });
    }
    answer(head, body).catch(() => socket.destroy());
  }

  function handOver(bytes: Buffer): void {
    socket.removeListener("data", onData);
    socket.removeListener("error", ignore);
    forget();
    socket.removeListener("end", onEnd);
    unread = undefined;
    served.handOver(Buffer.concat([bytes, readAhead(socket)]));
  }

  async function answer(head: SimpleHead, content?: WireBody): Promise<void> {
    const own = ending = new Ending();
    const before = peer.received;
    peer.phase = "request";
    let last = false;
    try {
      const source = new SimpleSource(head, served.scheme, own, content);
      const request = new ListenerRequest(source);
      const response = await served.handler(request, connection, own.add).catch(() => FAILED);
      last = content !== undefined && content.rest === undefined;
      await respond(peer, response, { method: head.method, ending: own, last });
    } catch {
      // Part of the answer has left: only a broken connection tells the client that the answer is not whole.
      socket.destroy();
    } finally {
      own.received = peer.received - before;
      own.done();
      ending = undefined;
    }
    if (last) return await content!.linger();
    body = undefined;
    if (content?.rest?.length) unread = Buffer.from(content.rest);
    served.peers.rest(peer);
    if (content) content.release();
    else if (socket.isPaused()) socket.resume();
    advance();
  }

  socket.on("data", onData);
  socket.on("error", ignore);
  socket.on("end", onEnd);
}
