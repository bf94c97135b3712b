/** A WebSocket as the link of a session: binary messages, with a bound on what waits to be sent. */
import { type Link, lost } from "./yamux/session.ts";

/** Bytes that may wait in the socket before more is sent: `send` itself only buffers. */
const HIGH_WATER = 2 << 20;
const POLL_MS = 2;

/** The caller sets `onmessage` and `onclose`, and gives what comes in to the session. */
export function socketLink(socket: WebSocket): Link {
  return {
    async send(bytes) {
      if (socket.readyState !== WebSocket.OPEN) {
        throw lost();
      }
      socket.send(bytes);
      while (socket.bufferedAmount > HIGH_WATER && socket.readyState === WebSocket.OPEN) {
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    },
    close() {
      if (socket.readyState <= WebSocket.OPEN) socket.close();
    },
  };
}
