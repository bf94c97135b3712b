/** A request's body as a stream that takes from the wire no more than its reader is ready for. */
import type { IncomingMessage } from "node:http";
import { SvcError } from "../../base/errors.ts";
import type { Peer } from "./peer.ts";

/** Bytes that may wait here before the connection is read no further. */
const WINDOW = 512 * 1024;

/** `begin` is called once, when the body is first asked for: a client may wait for that to send it. */
export function bodyStream(
  message: IncomingMessage,
  peer: Peer,
  begin: () => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const queue: Uint8Array<ArrayBuffer>[] = [];
  let queued = 0;
  let state: "new" | "open" | "ended" | "broken" = "new";
  let wake: (() => void) | undefined;
  let forget: (() => void) | undefined;

  const change = () => {
    wake?.();
    wake = undefined;
  };
  const end = (how: "ended" | "broken") => {
    if (state !== "open") return;
    state = how;
    forget?.();
    change();
  };
  const open = () => {
    state = "open";
    message.on("data", (bytes: Uint8Array<ArrayBuffer>) => {
      peer.moved += bytes.length;
      peer.received += bytes.length;
      queue.push(bytes);
      queued += bytes.length;
      if (queued >= WINDOW) message.pause();
      change();
    });
    message.on("end", () => end("ended"));
    message.on("error", () => end("broken"));
    message.on("aborted", () => end("broken"));
    message.on("close", () => end(message.complete ? "ended" : "broken"));
    forget = peer.onClose(() => end("broken"));
    if (message.destroyed || peer.socket.destroyed) end("broken");
    begin();
  };

  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      if (state === "new") open();
      while (queue.length === 0) {
        if (state === "ended") return controller.close();
        if (state === "broken") {
          return controller.error(
            new SvcError("cancelled", "Cannot receive the body: the connection broke off"),
          );
        }
        peer.waiting = true;
        await new Promise<void>((resolve) => wake = resolve);
        peer.waiting = false;
      }
      const bytes = queue.shift()!;
      queued -= bytes.length;
      if (queued < WINDOW / 2 && message.isPaused()) message.resume();
      controller.enqueue(bytes);
    },
    cancel() {
      queue.length = 0;
      state = "ended";
      forget?.();
    },
  }, { highWaterMark: 0 });
}
