/** WebSockets over connections that node's parser read, with the interface of browsers. */
import type { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Reply } from "../../api/reply.ts";
import { SvcError } from "../../base/errors.ts";

/** The used part of the package `ws`, which has no types of its own. */
interface Acceptor {
  handleUpgrade(
    message: IncomingMessage,
    socket: Socket,
    head: Buffer,
    done: (socket: WebSocket & { emit(event: "open"): void }) => void,
  ): void;
}

/** Messages are gathered up to this size; frames of ours are far smaller. */
const MAX_MESSAGE = 16 * 1024 * 1024;

let acceptor: Promise<Acceptor> | undefined;

/** Loaded with the first upgrade: most servers never see one. */
export function loadAcceptor(): Promise<Acceptor> {
  return acceptor ??= import("ws").then(({ WebSocketServer }) =>
    new WebSocketServer({ noServer: true, maxPayload: MAX_MESSAGE, perMessageDeflate: false })
  );
}

export const isUpgraded = (response: Response): boolean => response.status === 101;

/** As in browsers, the socket opens after the caller has had time to set handlers. */
export function accept(
  acceptor: Acceptor,
  message: IncomingMessage,
  head: Buffer,
): { socket: WebSocket; response: Response } {
  let opened: WebSocket | undefined;
  acceptor.handleUpgrade(message, message.socket as Socket, head, (socket) => {
    opened = socket;
    setTimeout(() => socket.emit("open"), 0);
  });
  // `ws` refused the handshake and has answered the request.
  if (!opened) throw new SvcError("argument_invalid", "Cannot upgrade: the handshake is not valid");
  return { socket: opened, response: new Reply(101, {}) };
}
