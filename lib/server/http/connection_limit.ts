/**
 * How many connections may be open at once. When the runtime's listener finds no free descriptor, it stops
 * accepting for ever, even when descriptors become free. The limit prevents that.
 */
import type { Server, Socket } from "node:net";
import { belowTls } from "../../base/node_hooks.ts";
import { openFileLimit } from "../../base/open_files.ts";

/** A connection may need its socket, a duplicate of it and a file; the fourth is for everything else. */
const DESCRIPTORS_EACH = 4;
const LEAST = 16;
/** Refusals are logged no more often than this. */
const TELL_MS = 60_000;

/** The number of connections that this process's descriptors are enough for. */
export async function connectionLimit(): Promise<number> {
  return Math.max(LEAST, Math.floor(await openFileLimit() / DESCRIPTORS_EACH));
}

export interface ConnectionLimit {
  most: number;
  /** Called when connections are closed because too many are open. */
  onRefused?: (open: number) => void;
}

/** Closes connections beyond the limit at once. Call it after all other listeners of "connection" are added. */
export function limitConnections(server: Server, { most, onRefused }: ConnectionLimit): void {
  const open = new Set<Socket>();
  let told = -Infinity;
  const takers = server.listeners("connection");
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    if (open.size >= most) {
      socket.on("error", () => {/* it is gone */});
      socket.destroy();
      if (performance.now() - told < TELL_MS) return;
      told = performance.now();
      return onRefused?.(open.size);
    }
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    for (const take of takers) take.call(server, socket);
  });
  // Node may close the TLS socket or the one below it first.
  server.on("secureConnection", (socket: Socket) => {
    const below = belowTls(socket);
    if (below) socket.once("close", () => open.delete(below));
  });
}
