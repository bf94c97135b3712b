/** TCP connections that begin in another network namespace. */
import { SvcError } from "../base/errors.ts";
import { close } from "../sys/fd.ts";
import { SystemError } from "../sys/errno.ts";
import { check, errno, libc } from "../sys/libc.ts";
import { withinNetns } from "../sys/netns.ts";
import { Readiness, receive, shutdown } from "../sys/readiness.ts";
import type { Duplex } from "./duplex.ts";

export const AF_INET = 2;
export const STREAM = 1;
export const NONBLOCK_CLOEXEC = 0o2004000;
const EINPROGRESS = 115;
export const EAGAIN = 11;
const SOL_SOCKET = 1;
const SO_ERROR = 4;
const MSG_NOSIGNAL = 0x4000;
const READ_SIZE = 64 * 1024;

export const readiness = new Readiness();

/** `struct sockaddr_in`: family, port and address. */
export function sockaddr(address: string, port: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(16);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, AF_INET, true);
  view.setUint16(2, port);
  bytes.set(address.split(".").map(Number), 4);
  return bytes;
}

/** What {@linkcode sockaddr} wrote. */
export function readSockaddr(bytes: Uint8Array): { address: string; port: number } {
  const port = bytes[2] << 8 | bytes[3];
  return { address: bytes.subarray(4, 8).join("."), port };
}

/** A stream on a connected, non-blocking socket, which it closes; where this throws, the socket is closed too. */
export function socketDuplex(descriptor: number): Duplex {
  const second = libc().dup(descriptor);
  const code = errno[0];
  if (second < 0) close(descriptor);
  return new SocketWithin(descriptor, check(second, code, "dup"));
}

/** One descriptor for each direction: each is waited for by one caller at a time. */
class SocketWithin implements Duplex {
  readonly #reading: number;
  readonly #writing: number;
  readonly #closed = Promise.withResolvers<void>();
  #last: Promise<void> = Promise.resolve();
  #open = true;
  #ended = { reading: false, writing: false };

  constructor(reading: number, writing: number) {
    this.#reading = reading;
    this.#writing = writing;
  }

  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  async read(): Promise<Uint8Array | undefined> {
    const buffer = new Uint8Array(READ_SIZE);
    for (;;) {
      if (!this.#open) throw gone();
      const size = receive(this.#reading, buffer);
      if (size === 0) {
        this.#end("reading");
        return undefined;
      }
      if (size !== undefined) return buffer.slice(0, size);
      await readiness.wait(this.#reading, "read");
    }
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#after(async () => {
      for (let rest = bytes as Uint8Array<ArrayBuffer>; rest.length > 0;) {
        if (!this.#open || this.#ended.writing) throw gone();
        const put = libc().send(this.#writing, rest, BigInt(rest.length), MSG_NOSIGNAL);
        const code = errno[0];
        if (put >= 0) rest = rest.subarray(put);
        else if (code !== EAGAIN) throw gone(new SystemError(code, "send"));
        else await readiness.wait(this.#writing, "write");
      }
    });
  }

  closeWrite(): Promise<void> {
    return this.#after(() => {
      if (this.#open && !this.#ended.writing) libc().shutdown(this.#writing, 1);
      this.#end("writing");
      return Promise.resolve();
    });
  }

  #after(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {/* the caller of that write was told */});
    return done;
  }

  #end(direction: "reading" | "writing"): void {
    this.#ended[direction] = true;
    if (this.#ended.reading && this.#ended.writing) this.reset();
  }

  reset(): void {
    if (!this.#open) return;
    this.#open = false;
    shutdown(this.#reading);
    for (const descriptor of [this.#reading, this.#writing]) {
      readiness.forget(descriptor);
      close(descriptor);
    }
    this.#closed.resolve();
  }
}

const gone = (cause?: unknown) =>
  new SvcError("upstream_failed", "Cannot use the connection: it was closed", { cause });

/** The error of a connection that was not made; undefined: it was. */
function failure(descriptor: number): number | undefined {
  const code = new Uint8Array(4);
  const size = new Uint8Array([4, 0, 0, 0]);
  check(
    libc().getsockopt(descriptor, SOL_SOCKET, SO_ERROR, code, size),
    errno[0],
    "getsockopt",
  );
  return new DataView(code.buffer).getInt32(0, true) || undefined;
}

const WORDS: Record<number, string> = {
  101: "no route to its network",
  110: "the host does not answer",
  111: "connection refused",
  113: "no route to the host",
};

/**
 * A connection from the network namespace of the file `netns` to an IPv4 address. Throws `upstream_failed`, or the
 * signal's reason.
 */
export async function connectWithin(
  netns: string,
  { address, port, signal }: { address: string; port: number; signal: AbortSignal },
): Promise<Duplex> {
  signal.throwIfAborted();
  const descriptor = withinNetns(
    netns,
    () => check(libc().socket(AF_INET, STREAM | NONBLOCK_CLOEXEC, 0), errno[0], "socket"),
  );
  const abort = () => readiness.forget(descriptor);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const result = libc().connect(descriptor, sockaddr(address, port), 16);
    const code = errno[0];
    if (result < 0 && code !== EINPROGRESS) throw unmade(address, port, code);
    await readiness.wait(descriptor, "write");
    signal.throwIfAborted();
    const failed = failure(descriptor);
    if (failed !== undefined) throw unmade(address, port, failed);
  } catch (error) {
    readiness.forget(descriptor);
    close(descriptor);
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
  readiness.forget(descriptor);
  return socketDuplex(descriptor);
}

function unmade(address: string, port: number, code: number): SvcError {
  const cause = new SystemError(code, "connect");
  return new SvcError(
    "upstream_failed",
    `Cannot connect to ${address}:${port}: ${WORDS[code] ?? cause.message}`,
    { cause },
  );
}
