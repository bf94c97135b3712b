/** A request's body, as node reads it, as a stream that takes no more than its reader is ready for. */
import type { IncomingMessage } from "node:http";
import type { LentConnection, RequestBody } from "../../base/request_body.ts";
import { BodyQueue } from "./body_queue.ts";
import type { Gate } from "./gate.ts";
import type { Peer } from "./peer.ts";

export type Body = ReadableStream<Uint8Array<ArrayBuffer>> & RequestBody;

export interface BodyOptions {
  message: IncomingMessage;
  peer: Peer;
  /** What the message came through; absent over TLS. */
  gate: Gate | undefined;
  /** Called once, when the body is first wanted: a client may wait for "100 Continue" before it sends it. */
  begin: () => void;
}

/** A body that can be taken from its connection. */
class LendableBody extends ReadableStream<Uint8Array<ArrayBuffer>> implements RequestBody {
  constructor(
    source: UnderlyingDefaultSource<Uint8Array<ArrayBuffer>>,
    readonly takeOver: () => LentConnection | undefined,
  ) {
    super(source, { highWaterMark: 0 });
  }
}

export function bodyStream({ message, peer, gate, begin }: BodyOptions): Body {
  let forget: (() => void) | undefined;
  const end = (whole: boolean) => {
    forget?.();
    peer.malformed = undefined;
    if (whole) queue.end();
    else queue.fail("the connection broke off");
  };
  const queue = new BodyQueue({
    peer,
    open() {
      message.on("data", (bytes: Uint8Array<ArrayBuffer>) => {
        if (queue.push(bytes)) return;
        if (gate) gate.stop(queue);
        else message.pause();
      });
      message.on("end", () => end(true));
      message.on("error", () => end(false));
      message.on("aborted", () => end(false));
      message.on("close", () => end(message.complete));
      forget = peer.onClose(() => end(false));
      if (message.destroyed || peer.socket.destroyed) end(false);
      peer.malformed = () => {
        // What came before is the body's; each read tells it as "data".
        while (message.read() !== null);
        queue.fail("its chunks are malformed", "body_malformed");
      };
      begin();
      gate?.open(message);
    },
    resume() {
      if (gate) gate.go(queue);
      else message.resume();
    },
    cancel() {
      gate?.go(queue);
      forget?.();
      peer.malformed = undefined;
    },
  });
  if (!gate?.lends) return new ReadableStream(queue, { highWaterMark: 0 });
  return new LendableBody(queue, () => gate.lend(message, begin));
}
