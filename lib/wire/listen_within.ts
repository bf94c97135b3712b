/** Sockets on the loopback of another network namespace, with what the kernel knows of redirected connections. */
import { close } from "../sys/fd.ts";
import { check, errno, libc } from "../sys/libc.ts";
import { withinNetns } from "../sys/netns.ts";
import type { Duplex } from "./duplex.ts";
import {
  AF_INET,
  EAGAIN,
  NONBLOCK_CLOEXEC,
  readiness,
  readSockaddr,
  sockaddr,
  socketDuplex,
  STREAM,
} from "./socket_within.ts";

const DATAGRAM = 2;
const SOL_SOCKET = 1;
const SO_REUSEADDR = 2;
const SOL_IP = 0;
const SO_ORIGINAL_DST = 80;
const BACKLOG = 128;
const ADDRESS_SIZE = 16;
const LOOPBACK = "127.0.0.1";
/** Bytes of a datagram, at most. */
const MOST = 65_535;

export interface Place {
  address: string;
  port: number;
}

const sizeOf = (size: number) => new Uint8Array(new Uint32Array([size]).buffer);

/** A socket that is bound in the namespace. Throws `SystemError`, EADDRINUSE where the port is taken. */
function bound(netns: string, kind: number, port: number): { descriptor: number; port: number } {
  const descriptor = withinNetns(
    netns,
    () => check(libc().socket(AF_INET, kind | NONBLOCK_CLOEXEC, 0), errno[0], "socket"),
  );
  try {
    if (kind === STREAM) {
      const on = sizeOf(1);
      check(
        libc().setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, on, on.length),
        errno[0],
        "setsockopt",
      );
    }
    const address = sockaddr(LOOPBACK, port) as Uint8Array<ArrayBuffer>;
    check(libc().bind(descriptor, address, ADDRESS_SIZE), errno[0], "bind");
    if (kind === STREAM) check(libc().listen(descriptor, BACKLOG), errno[0], "listen");
    const name = new Uint8Array(ADDRESS_SIZE);
    check(libc().getsockname(descriptor, name, sizeOf(ADDRESS_SIZE)), errno[0], "getsockname");
    return { descriptor, port: readSockaddr(name).port };
  } catch (error) {
    close(descriptor);
    throw error;
  }
}

/** A descriptor that is waited for, until it is closed. */
class Waited {
  readonly descriptor: number;
  readonly port: number;
  #open = true;

  constructor({ descriptor, port }: { descriptor: number; port: number }) {
    this.descriptor = descriptor;
    this.port = port;
  }

  /** What `take` gives, once it gives something; undefined once this is closed. */
  async next<T>(take: (descriptor: number) => T | undefined): Promise<T | undefined> {
    while (this.#open) {
      const taken = take(this.descriptor);
      if (taken !== undefined) return taken;
      await readiness.wait(this.descriptor, "read");
    }
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    readiness.forget(this.descriptor);
    close(this.descriptor);
  }
}

/** A connection, and where its client wanted to go before the kernel redirected it. */
export interface Redirected {
  stream: Duplex;
  to: Place;
}

/** Takes TCP connections. Those that were not redirected are closed. */
export class ListenerWithin extends Waited {
  /** `port` 0: a free one. */
  constructor(netns: string, port: number) {
    super(bound(netns, STREAM, port));
  }

  /** Undefined once this is closed. Throws where the system has no descriptor left. */
  accept(): Promise<Redirected | undefined> {
    return this.next((listening) => {
      for (;;) {
        const peer = new Uint8Array(ADDRESS_SIZE);
        const size = sizeOf(ADDRESS_SIZE);
        const descriptor = libc().accept4(listening, peer, size, NONBLOCK_CLOEXEC);
        const code = errno[0];
        if (descriptor < 0 && code === EAGAIN) return undefined;
        check(descriptor, code, "accept4");
        const to = new Uint8Array(ADDRESS_SIZE);
        const known = libc().getsockopt(
          descriptor,
          SOL_IP,
          SO_ORIGINAL_DST,
          to,
          sizeOf(ADDRESS_SIZE),
        );
        if (known === 0) return { stream: socketDuplex(descriptor), to: readSockaddr(to) };
        close(descriptor);
      }
    });
  }
}

/** Takes and sends datagrams. */
export class DatagramsWithin extends Waited {
  constructor(netns: string) {
    super(bound(netns, DATAGRAM, 0));
  }

  /** Undefined once this is closed. */
  receive(): Promise<{ bytes: Uint8Array; from: Place } | undefined> {
    return this.next((descriptor) => {
      const buffer = new Uint8Array(MOST);
      const from = new Uint8Array(ADDRESS_SIZE);
      const size = sizeOf(ADDRESS_SIZE);
      const got = libc().recvfrom(descriptor, buffer, BigInt(MOST), 0, from, size);
      if (got < 0) return undefined; // nothing there yet, or an error about an earlier answer
      return { bytes: buffer.slice(0, got), from: readSockaddr(from) };
    });
  }

  /** What cannot be sent is lost, as datagrams are. */
  send(bytes: Uint8Array<ArrayBuffer>, { address, port }: Place): void {
    const to = sockaddr(address, port) as Uint8Array<ArrayBuffer>;
    libc().sendto(this.descriptor, bytes, BigInt(bytes.length), 0, to, ADDRESS_SIZE);
  }
}
