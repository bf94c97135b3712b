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
import type { Peer, Peers } from "./peer.ts";
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
  new PlainConnection(socket, served);
}

class PlainConnection {
  readonly #socket: Socket;
  readonly #served: Served;
  readonly #peer: Peer;
  readonly #connection: PeerConnection;
  /** Bytes that were read and not served. */
  #unread: Buffer | undefined;
  /** Present while a request is being answered. */
  #ending: Ending | undefined;
  #body: WireBody | undefined;
  /** Undoes what the constructor has set up. */
  readonly #forget: () => void;

  constructor(socket: Socket, served: Served) {
    this.#socket = socket;
    this.#served = served;
    this.#peer = served.peers.add(socket);
    this.#connection = new PeerConnection(this.#peer, noUpgrade);
    const onData = (bytes: Buffer) => this.#receive(bytes);
    const ignore = () => {/* "close" follows and tells everybody */};
    // A client that closes its side counts as gone, as in node's server.
    const onEnd = () => socket.destroy();
    const forget = this.#peer.onClose(() => this.#ending?.gone());
    socket.on("data", onData);
    socket.on("error", ignore);
    socket.on("end", onEnd);
    this.#forget = () => {
      forget();
      socket.off("data", onData);
      socket.off("error", ignore);
      socket.off("end", onEnd);
    };
  }

  #receive(bytes: Buffer): void {
    if (this.#body) return this.#body.receive(bytes);
    this.#unread = this.#unread ? Buffer.concat([this.#unread, bytes]) : bytes;
    if (!this.#ending) this.#advance();
    else if (this.#unread.length > HEAD_BYTES) this.#socket.pause();
  }

  #advance(): void {
    const unread = this.#unread;
    if (!unread || this.#socket.destroyed) return;
    // Bytes that cannot begin a request, such as a TLS hello, are handed over at once: their client waits for
    // an answer.
    const begin = unread.toString("latin1", 0, 5);
    const bodied = BODIED.some((text) => text.startsWith(begin));
    if (bodied ? !canLend(this.#socket) : !SIMPLE.some((text) => text.startsWith(begin))) {
      return this.#handOver(unread);
    }
    const end = unread.indexOf("\r\n\r\n");
    if (end < 0 && unread.length <= HEAD_BYTES) {
      if (this.#peer.phase === "idle") this.#peer.phase = "head";
      return;
    }
    if (bodied) return this.#advanceBody(unread, end + 4);
    // The bytes are one head, and nothing follows it.
    const whole = end === unread.length - 4;
    const head = whole ? parseSimpleHead(unread.toString("latin1")) : undefined;
    if (!head) return this.#handOver(unread);
    this.#unread = undefined;
    this.#answer(head).catch(() => this.#socket.destroy());
  }

  #advanceBody(bytes: Buffer, from: number): void {
    const head = from > 3 ? parseBodyHead(bytes.toString("latin1", 0, from)) : undefined;
    if (!head || !UPLOAD.test(head.target)) return this.#handOver(bytes);
    const prefix = bytes.subarray(from);
    if (head.length === 0 && prefix.length > 0) return this.#handOver(bytes);
    this.#unread = undefined;
    if (head.length !== 0) {
      const begin = () => {
        if (head.awaitsContinue) this.#socket.write(CONTINUE);
      };
      this.#body = new WireBody(this.#peer, { prefix, length: head.length, begin });
    }
    this.#answer(head, this.#body).catch(() => this.#socket.destroy());
  }

  #handOver(bytes: Buffer): void {
    this.#forget();
    this.#unread = undefined;
    this.#served.handOver(Buffer.concat([bytes, readAhead(this.#socket)]));
  }

  async #answer(head: SimpleHead, content?: WireBody): Promise<void> {
    const { handler, peers, scheme } = this.#served;
    const peer = this.#peer;
    const own = this.#ending = new Ending();
    const before = peer.received;
    peer.phase = "request";
    let last = false;
    try {
      const request = new ListenerRequest(new SimpleSource(head, scheme, own, content));
      const response = await handler(request, this.#connection, own.add).catch(() => FAILED);
      last = content !== undefined && content.rest === undefined;
      await respond(peer, response, { method: head.method, ending: own, last });
    } catch {
      // Part of the answer has left: only a broken connection tells the client that the answer is not whole.
      this.#socket.destroy();
    } finally {
      own.received = peer.received - before;
      own.done();
      this.#ending = undefined;
    }
    if (last) return await content!.linger();
    this.#body = undefined;
    if (content?.rest?.length) this.#unread = Buffer.from(content.rest);
    peers.rest(peer);
    if (content) content.release();
    else if (this.#socket.isPaused()) this.#socket.resume();
    this.#advance();
  }
}
