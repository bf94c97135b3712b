/**
 * Waits for sockets whose bytes do not pass through the runtime. All waits share one epoll(7) instance and
 * one thread, which waits as long as there are callers.
 */
import { check, errno, libc } from "./libc.ts";

const EPOLL_CLOEXEC = 0x80000;
const EPOLLIN = 0x1;
const EPOLLOUT = 0x4;
const EPOLLERR = 0x8;
const EPOLLHUP = 0x10;
const EPOLLONESHOT = 1 << 30;
const ADD = 1;
const DEL = 2;
const MOD = 3;
const EEXIST = 17;

/** Most events of one call. */
const EVENTS = 64;
/** Longest time of one call in milliseconds, so that the thread ends soon after the last caller has left. */
const TURN_MS = 1000;
/** `struct epoll_event` is packed on x86 only. */
const PACKED = Deno.build.arch === "x86_64";
const SIZE = PACKED ? 12 : 16;
const DATA = PACKED ? 4 : 8;

export type Direction = "read" | "write";

/**
 * The readiness of descriptors. Each is waited for by one caller at a time, who calls
 * {@linkcode Readiness.forget} before closing it.
 */
export class Readiness {
  #epoll: number | undefined;
  #waiters = new Map<number, (broken: boolean) => void>();
  #known = new Set<number>();
  /** Memory outside the engine: a Worker may be terminated while the call can still write there. */
  #events: Deno.PointerObject | undefined;
  #looping = false;

  /**
   * Resolves once a read or write would not wait: false where the connection is broken (reset, or shut down
   * both ways).
   */
  wait(descriptor: number, direction: Direction): Promise<boolean> {
    this.#epoll ??= check(libc().epoll_create1(EPOLL_CLOEXEC), errno[0], "epoll_create1");
    const event = new Uint8Array(SIZE);
    const view = new DataView(event.buffer);
    view.setUint32(0, (direction === "read" ? EPOLLIN : EPOLLOUT) | EPOLLONESHOT, true);
    view.setInt32(DATA, descriptor, true);
    const operation = this.#known.has(descriptor) ? MOD : ADD;
    let result = libc().epoll_ctl(this.#epoll, operation, descriptor, event);
    if (result < 0 && errno[0] === EEXIST) {
      result = libc().epoll_ctl(this.#epoll, MOD, descriptor, event);
    }
    check(result, errno[0], "epoll_ctl");
    this.#known.add(descriptor);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiters.set(descriptor, (broken) => resolve(!broken));
    if (!this.#looping) void this.#loop();
    return promise;
  }

  /** Ends a wait for the descriptor; the connection then counts as broken. */
  forget(descriptor: number): void {
    if (!this.#known.delete(descriptor)) return;
    libc().epoll_ctl(this.#epoll!, DEL, descriptor, new Uint8Array(SIZE));
    const waiter = this.#waiters.get(descriptor);
    this.#waiters.delete(descriptor);
    waiter?.(true);
  }

  async #loop(): Promise<void> {
    this.#looping = true;
    this.#events ??= libc().malloc(BigInt(EVENTS * SIZE))!;
    const view = new DataView(Deno.UnsafePointerView.getArrayBuffer(this.#events, EVENTS * SIZE));
    while (this.#waiters.size > 0) {
      // An interrupted call returns -1, and the loop waits again.
      const found = await libc().epoll_wait(this.#epoll!, this.#events, EVENTS, TURN_MS);
      for (let n = 0; n < found; n++) {
        const events = view.getUint32(n * SIZE, true);
        const descriptor = view.getInt32(n * SIZE + DATA, true);
        const waiter = this.#waiters.get(descriptor);
        this.#waiters.delete(descriptor);
        waiter?.((events & (EPOLLERR | EPOLLHUP)) !== 0);
      }
    }
    this.#looping = false;
  }
}

const SHUT_RDWR = 2;

/** Breaks a connection for all holders of its descriptors; ends a wait for it. */
export function shutdown(descriptor: number): void {
  libc().shutdown(descriptor, SHUT_RDWR);
}

/**
 * Sends bytes of `file` from its position to a non-blocking socket, as many as the socket takes now. 0 at the
 * end of the file; undefined where the socket takes none, which may also mean a broken connection. The disk
 * is read in another thread.
 */
export async function sendFile(
  socket: number,
  file: number,
  count: number,
): Promise<number | undefined> {
  // errno belongs to another thread here; the wait for the socket will show an error.
  const sent = await libc().sendfile(socket, file, null, BigInt(count));
  return sent < 0 ? undefined : sent;
}

const SIOCOUTQ = 0x5411n;
const count = new Int32Array(1);

/** Bytes given to a socket and not acknowledged by the other end. */
export function unacknowledged(socket: number): number {
  const place = Deno.UnsafePointer.value(Deno.UnsafePointer.of(count));
  check(libc().ioctl(socket, SIOCOUTQ, place), errno[0], "ioctl");
  return count[0];
}

const MSG_DONTWAIT = 0x40;
const EAGAIN = 11;
const EINTR = 4;

/**
 * Reads what has arrived: 0 at the end of the stream, undefined where nothing has arrived. Throws where the
 * connection is broken.
 */
export function receive(socket: number, buffer: Uint8Array<ArrayBuffer>): number | undefined {
  const got = libc().recv(socket, buffer, BigInt(buffer.length), MSG_DONTWAIT);
  if (got >= 0) return got;
  const code = errno[0];
  if (code === EAGAIN || code === EINTR) return undefined;
  return check(got, code, "recv");
}
