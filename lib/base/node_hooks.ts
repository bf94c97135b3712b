/**
 * Everything that svc uses of node's objects and that node does not publish. Each function says what happens
 * where the runtime no longer has it. docs/decisions/listener.md has the reasons and the figures.
 */
import type { Buffer } from "node:buffer";
import type { Duplex } from "node:stream";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

interface Handle {
  readStart(): unknown;
  readStop(): unknown;
  /** A duplicate of the socket's descriptor. */
  fdForIpc?(): number;
  /** The socket's own descriptor. */
  fd?: number;
}

/** Node's internal names. */
interface Internals {
  _handle?: Partial<Handle> | null;
  /** The connection below TLS. */
  _parent?: (Socket & Internals) | null;
  /** The stream's own method to request more data. */
  _read?: unknown;
}

function handleOf(socket: Internals | null | undefined): Handle | undefined {
  const handle = socket?._handle;
  return handle?.readStart && handle.readStop ? handle as Handle : undefined;
}

/** True where {@linkcode halt} and {@linkcode descriptorOf} work. Elsewhere bodies go through streams. */
export function canLend(socket: Socket): boolean {
  if (Deno.build.os !== "linux" || "encrypted" in socket) return false;
  return handleOf(socket as Internals)?.fdForIpc !== undefined;
}

/**
 * A duplicate of the descriptor of a plain connection on Linux, which the caller closes. Undefined elsewhere:
 * then files are read and written in pieces.
 */
export function descriptorOf(socket: Socket): number | undefined {
  if (!canLend(socket)) return undefined;
  const descriptor = handleOf(socket as Internals)!.fdForIpc!();
  return descriptor >= 0 ? descriptor : undefined;
}

/** The descriptor of a connection, which stays the connection's. Undefined where the runtime does not tell. */
export function ownDescriptor(socket: Socket): number | undefined {
  return (socket as Internals)._handle?.fd;
}

/**
 * Stops reading at once: nothing more is taken from the kernel until the result is called. A stream that is
 * only paused still reads ahead. Only where {@linkcode canLend} says so.
 */
export function halt(socket: Socket): () => void {
  const own = socket as Internals;
  socket.pause();
  own._read = () => {/* not now */};
  handleOf(own)?.readStop();
  return () => {
    delete own._read;
    if (socket.destroyed) return;
    handleOf(own)?.readStart();
    socket.resume();
  };
}

/**
 * Gives bytes that were read from `socket` to the listeners that it has now, before bytes that arrive later.
 * Without listeners the bytes are put back and read again.
 */
export function passOn(socket: Socket, bytes: Buffer): void {
  // Node's parser reads past the socket's buffer: bytes put back there would be parsed a turn later, behind
  // bytes that arrive meanwhile.
  if (!socket.emit("data", bytes)) socket.unshift(bytes);
}

/** The connection below TLS. Undefined where the runtime does not tell. */
export function belowTls(socket: Socket): Socket | undefined {
  return (socket as Internals)._parent ?? undefined;
}

/**
 * Backpressure for node's TLS in this runtime: from now on, pausing `socket` or stopping its handle also stops
 * reads from the connection below. Without it, TLS continues to read while nobody takes the data, and keeps
 * all of it in memory. `inner`: the stream below, where it is not one of node's own sockets.
 */
export function pauseBelow(socket: TLSSocket, inner?: Duplex): void {
  const secure = socket as Internals;
  const below = handleOf(secure._parent);
  const own = handleOf(secure);
  let paused = false;
  let stopped = false;
  const apply = () => {
    if (paused || stopped) {
      secure._read = (size: number) => {
        // Reading is stopped; but who reads piece by piece neither resumes the socket nor starts its handle.
        if (socket.listenerCount("readable") === 0) return;
        paused = false;
        delete secure._read;
        socket._read(size);
      };
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
