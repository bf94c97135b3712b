/**
 * Write ends of FIFOs and of packet sockets, which the runtime does not open: writes wait for their reader
 * without blocking the event loop.
 */
import { SystemError } from "./errno.ts";
import { close, open } from "./fd.ts";
import { O } from "./files.ts";
import { check, errno, isForeignErrno, libc } from "./libc.ts";
import { Readiness } from "./readiness.ts";
import { callHere } from "./system_call.ts";

const EPIPE = 32;
const AF_UNIX = 1;
const SOCK_SEQPACKET = 5;
const SOCK_CLOEXEC = O.CLOEXEC;
const SOCK_NONBLOCK = O.NONBLOCK;
const SHUT_RD = 0;

/** Bytes of one packet: every reader of such sockets takes as many at once. */
const PACKET = 4096;

const readiness = new Readiness();

export class WriteEnd implements Disposable {
  readonly #fd: number;
  readonly #path: string;
  #closed = false;

  constructor(fd: number, path: string) {
    this.#fd = fd;
    this.#path = path;
  }

  /** Resolves when all bytes were taken. Throws EPIPE where nobody reads any more, or once it is closed. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let rest = bytes as Uint8Array<ArrayBuffer>; rest.length > 0;) {
      if (this.#closed) throw new SystemError(EPIPE, "write", this.#path);
      const part = rest.subarray(0, PACKET);
      const put = libc().write(this.#fd, part, BigInt(part.length));
      const code = errno[0];
      if (put >= 0) rest = rest.subarray(Number(put));
      else if (!isForeignErrno(code)) throw new SystemError(code, "write", this.#path);
      else if (!await readiness.wait(this.#fd, "write") && !this.#closed) {
        throw new SystemError(EPIPE, "write", this.#path);
      }
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    readiness.forget(this.#fd);
    close(this.#fd);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Opens a FIFO for writing. Throws ENXIO where nobody reads it. */
export const openFifo = (path: string): WriteEnd =>
  new WriteEnd(open(path, O.WRONLY | O.NONBLOCK), path);

/**
 * Connects to a socket of kind SOCK_SEQPACKET in a folder, however long the folder's path is, to write to it
 * alone: what its other side sends is dropped.
 */
export function connectPackets(folder: string, name: string): WriteEnd {
  const path = `${folder}/${name}`;
  const place = open(folder, O.PATH | O.DIRECTORY);
  try {
    const kind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
    const fd = check(libc().socket(AF_UNIX, kind, 0), errno[0], "socket", path);
    try {
      // struct sockaddr_un: the family, then a path of at most 107 bytes.
      const short = new TextEncoder().encode(`/proc/self/fd/${place}/${name}`);
      const address = new Uint8Array(new ArrayBuffer(2 + short.length + 1));
      new DataView(address.buffer).setUint16(0, AF_UNIX, true);
      address.set(short, 2);
      callHere("connect", fd, address, address.length);
      check(libc().shutdown(fd, SHUT_RD), errno[0], "shutdown", path);
      return new WriteEnd(fd, path);
    } catch (error) {
      close(fd);
      throw error;
    }
  } finally {
    close(place);
  }
}
