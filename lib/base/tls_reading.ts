/**
 * Backpressure for node's TLS in this runtime. Without it, TLS continues to read while nobody takes the data,
 * and keeps all of it in memory: neither a paused socket, nor node's HTTP, which stops the socket's handle,
 * stops the connection below.
 */
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";

interface Handle {
  readStart(): unknown;
  readStop(): unknown;
}

/** Node's internal names; there is no public access. */
interface Secure {
  _handle?: Partial<Handle> | null;
  _parent?: { _handle?: Partial<Handle> | null } | null;
  /** The stream's own method to request more data. */
  _read?: unknown;
}

function handleOf(owner: Secure["_parent"]): Handle | undefined {
  const handle = owner?._handle;
  return handle?.readStart && handle.readStop ? handle as Handle : undefined;
}

/**
 * From now on, pausing `socket` or stopping its handle also stops reads from the connection below. `inner`:
 * the stream below, where it is not one of node's own sockets.
 */
export function pauseBelow(socket: TLSSocket, inner?: Duplex): void {
  const secure = socket as unknown as Secure;
  const below = handleOf(secure._parent);
  const own = handleOf(secure);
  let paused = false;
  let stopped = false;
  const apply = () => {
    if (paused || stopped) {
      secure._read = () => {/* reading is stopped */};
      if (below) below.readStop();
      else inner?.pause();
    } else {
      delete secure._read;
      if (socket.destroyed) return;
      if (below) below.readStart();
      else inner?.resume();
    }
  };
  socket.on("pause", () => {
    paused = true;
    apply();
  });
  socket.on("resume", () => {
    paused = false;
    apply();
  });
  if (!own) return;
  const { readStart, readStop } = own;
  own.readStop = () => {
    stopped = true;
    apply();
    return readStop.call(own);
  };
  own.readStart = () => {
    stopped = false;
    apply();
    return readStart.call(own);
  };
}
