/**
 * A plain connection from its first byte. Simple requests (head.ts) are answered here; the first one that
 * is not makes the connection node's, with the bytes that were read, for the rest of its life.
 */
import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import { Ending, FAILED, type Handler, PeerConnection } from "./exchange.ts";
import { parseSimpleHead, type SimpleHead } from "./head.ts";
import type { Peers } from "./peer.ts";
import { ListenerRequest, type Source } from "./request.ts";
import { noUpgrade } from "./node.ts";
import { respond } from "./respond.ts";

/** Longer heads are node's to refuse. */
const HEAD_BYTES = 16 * 1024;
class SimpleSource implements Source {
  constructor(
    private readonly head: SimpleHead,
    readonly scheme: Source["scheme"],
    private readonly ending: Ending,
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

  body(): null {
    return null;
  }

  signal(): AbortSignal {
    return this.ending.signal;
  }
}

export interface Served {
  handler: Handler;
  peers: Peers;
  scheme: Source["scheme"];
  /** Takes over the connection, whose first unread bytes are `head`. */
  handOver: (head: Buffer) => void;
}

/** Serves a new connection. */
export function serveConnection(socket: Socket, served: Served): void {
  const peer = served.peers.add(socket);
  const connection = new PeerConnection(peer, noUpgrade);
  let unread: Buffer | undefined;
  let ending: Ending | undefined;

  const ignore = () => {/* "close" follows and tells everybody */};
  const forget = peer.onClose(() => ending?.gone());
  // A client that ends its side has gone, as node sees it too.
  const onEnd = () => socket.destroy();

  const onData = (bytes: Buffer) => {
    unread = unread ? Buffer.concat([unread, bytes]) : bytes;
    if (!ending) advance();
    else if (unread.length > HEAD_BYTES) socket.pause();
  };

  function advance(): void {
    if (!unread || socket.destroyed) return;
    // A client that tries TLS first waits for an answer to bytes that no head begins with.
    const begin = unread.toString("latin1", 0, 5);
    if (!"GET /".startsWith(begin) && !"HEAD ".startsWith(begin)) return handOver(unread);
    const end = unread.indexOf("\r\n\r\n");
    if (end < 0 && unread.length <= HEAD_BYTES) {
      if (peer.phase === "idle") peer.phase = "head";
      return;
    }
    // One head and nothing behind it.
    const whole = end === unread.length - 4;
    const head = whole ? parseSimpleHead(unread.toString("latin1")) : undefined;
    if (!head) return handOver(unread);
    unread = undefined;
    answer(head).catch(() => socket.destroy());
  }

  function handOver(bytes: Buffer): void {
    socket.removeListener("data", onData);
    socket.removeListener("error", ignore);
    forget();
    socket.removeListener("end", onEnd);
    unread = undefined;
    const parts = [bytes];
    for (let more: Buffer | null; (more = socket.read()) !== null;) parts.push(more);
    served.handOver(parts.length === 1 ? bytes : Buffer.concat(parts));
  }

  async function answer(head: SimpleHead): Promise<void> {
    const own = ending = new Ending();
    peer.phase = "request";
    try {
      const request = new ListenerRequest(new SimpleSource(head, served.scheme, own));
      const response = await served.handler(request, connection, own.add).catch(() => FAILED);
      await respond(peer, response, { method: head.method, ending: own });
    } catch {
      // The answer has begun: only a broken connection says that it is not whole.
      socket.destroy();
    } finally {
      own.done();
      ending = undefined;
    }
    served.peers.rest(peer);
    if (socket.isPaused()) socket.resume();
    advance();
  }

  socket.on("data", onData);
  socket.on("error", ignore);
  socket.on("end", onEnd);
}
