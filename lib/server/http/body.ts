/** The body of a request that node reads, as a stream with backpressure. */
import type { IncomingMessage } from "node:http";
import { BodyQueue } from "./body_queue.ts";
import type { Peer } from "./peer.ts";

/**
 * `begin` is called once, when the body is first read: a client may wait for "100 Continue" before it sends the
 * body.
 */
export function bodyStream(
  message: IncomingMessage,
  peer: Peer,
  begin: () => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let forget: (() => void) | undefined;
  const end = (whole: boolean) => {
    forget?.();
    if (whole) queue.end();
    else queue.fail("the connection broke off");
  };
  const queue = new BodyQueue({
    peer,
    open() {
      message.on("data", (bytes: Uint8Array<ArrayBuffer>) => {
        if (!queue.push(bytes)) message.pause();
      });
      message.on("end", () => end(true));
      message.on("error", () => end(false));
      message.on("aborted", () => end(false));
      message.on("close", () => end(message.complete));
      forget = peer.onClose(() => end(false));
      if (message.destroyed || peer.socket.destroyed) end(false);
      begin();
    },
    resume: () => message.resume(),
    cancel: () => forget?.(),
  });
  return new ReadableStream(queue, { highWaterMark: 0 });
}
