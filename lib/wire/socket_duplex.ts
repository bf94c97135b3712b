/** A socket of node as a stream. Unlike a `Deno.Conn` it can tell the other side that it broke. */
import type { Socket } from "node:net";
import { SvcError } from "../base/errors.ts";
import type { Duplex } from "./duplex.ts";

const gone = (cause?: unknown) =>
  new SvcError("upstream_failed", "Cannot use the connection: it was closed", { cause });

/**
 * The socket must have been made with `allowHalfOpen`. `reset` tells the other side that the stream broke
 * (RST), unless both directions have ended in good order.
 */
export function socketDuplex(socket: Socket): Duplex {
  let failure: Error | undefined;
  let ended = false;
  let wake = () => {};
  socket.on("error", (error) => failure ??= error);
  socket.on("end", () => {
    ended = true;
    wake();
  });
  socket.on("readable", () => wake());
  const closed = new Promise<void>((resolve) =>
    socket.on("close", () => {
      resolve();
      wake();
    })
  );
  return {
    closed,
    async read() {
      for (;;) {
        if (failure) throw gone(failure);
        const bytes = socket.read() as Uint8Array | null;
        if (bytes) return bytes;
        if (ended) return undefined;
        if (socket.destroyed) throw gone();
        await new Promise<void>((resolve) => wake = resolve);
      }
    },
    write(bytes) {
      if (socket.destroyed || socket.writableEnded) return Promise.reject(gone(failure));
      // A TLS socket of Deno breaks at a write of nothing (EPERM).
      if (bytes.length === 0) return Promise.resolve();
      return new Promise((resolve, reject) =>
        socket.write(bytes, (error) => error ? reject(gone(error)) : resolve())
      );
    },
    closeWrite() {
      if (socket.destroyed) return Promise.resolve();
      return new Promise<void>((resolve) => {
        socket.once("close", resolve);
        socket.end(() => {
          socket.off("close", resolve);
          resolve();
        });
      });
    },
    reset() {
      if (ended && socket.writableFinished) socket.destroy();
      else if (!socket.destroyed) socket.resetAndDestroy();
    },
  };
}
