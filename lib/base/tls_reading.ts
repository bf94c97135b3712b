/**
 * node's TLS in this runtime reads on while nobody takes what comes, and keeps all of it in memory: neither
 * a paused socket nor node's HTTP, which stops its socket's handle, stops the connection below.
 */
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";

interface Handle {
  readStart(): unknown;
  readStop(): unknown;
}

/** Reached by its inner names: there are no others. */
interface Secure {
  _handle?: Partial<Handle> | null;
  _parent?: { _handle?: Partial<Handle> | null } | null;
  /** The stream's own way of asking for more. */
  _read?: unknown;
}

function handleOf(owner: Secure["_parent"]): Handle | undefined {
  const handle = owner?._handle;
  return handle?.readStart && handle.readStop ? handle as Handle : undefined;
}

/**
 * From now on nothing is read below `socket` while it is paused, or its handle stopped. `inner`: the stream
 * it was made of, where that is none of node's own sockets.
 */
export function pauseBelow(socket: TLSSocket, inner?: Duplex): void {
  const secure = socket as unknown as Secure;
  const below = handleOf(secure._parent);
  const own = handleOf(secure);
  let paused = false;
  let stopped = false;
  const apply = () => {
    if (paused || stopped) {
      secure._read = () => {/* not now */};
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
