/**
 * The state of an open connection, and its time limits. Without limits, clients that send no request, stop in
 * the middle of one, or do not read their answer would hold their connection for ever.
 */
import type { Socket } from "node:net";
import type { ClientCertificate } from "../../api/route.ts";
import type { ClientCertificates, Examined } from "./client_certificates.ts";

export interface Limits {
  /** Milliseconds a request's head may take. */
  headMs: number;
  /** Milliseconds a connection may wait for its next request. */
  idleMs: number;
  /** Milliseconds within which a body that the server waits for must move by `LEAST_BYTES`. */
  stallMs: number;
}

export const LIMITS: Limits = { headMs: 30_000, idleMs: 75_000, stallMs: 120_000 };

/** 34 bytes a second over the default time: far below any link that a push could succeed on. */
const LEAST_BYTES = 4096;

/** What a connection is doing. `live`: its answer is a stream of unknown length, which may pause for any time. */
export type Phase = "idle" | "head" | "request" | "live";

export class Peer {
  #phase: Phase = "head";
  #since = performance.now();
  /** True while a body waits for the client; false while it waits for this server. */
  waiting = false;
  /** Bytes of bodies, in and out. */
  moved = 0;
  /** Bytes of requests' bodies that were read. */
  received = 0;
  /** The connection closes after the current answer; requests read behind it are not served. */
  last = false;
  #mark = 0;
  #closing = new Set<() => void>();
  readonly #address: string;
  readonly #port: number;
  #remote: string | undefined;
  /** Kept because reading a certificate takes longer than the rest of a small request. */
  #examined: Examined | undefined;

  constructor(readonly socket: Socket, private readonly certificates?: ClientCertificates) {
    // Stored here: the socket forgets its address when it closes, and the access log is written later.
    this.#address = socket.remoteAddress ?? "";
    this.#port = socket.remotePort ?? 0;
  }

  /** Calls `callback` when the connection has closed; the result cancels that. */
  onClose(callback: () => void): () => void {
    this.#closing.add(callback);
    return () => void this.#closing.delete(callback);
  }

  closed(): void {
    const callbacks = [...this.#closing];
    this.#closing.clear();
    for (const callback of callbacks) callback();
  }

  get phase(): Phase {
    return this.#phase;
  }

  set phase(phase: Phase) {
    this.#phase = phase;
    this.#since = performance.now();
    this.#mark = this.moved;
  }

  /** "host:port"; an IPv4 peer of a dual-stack socket is shown as IPv4. */
  get remote(): string {
    if (this.#remote !== undefined) return this.#remote;
    const host = this.#address.replace(/^::ffff:(?=\d+\.)/, "");
    return this.#remote = `${host.includes(":") ? `[${host}]` : host}:${this.#port}`;
  }

  /** The client's certificate. Undefined: it presented none, or the server asks for none. */
  get certificate(): ClientCertificate | undefined {
    if (!this.certificates) return undefined;
    this.#examined = this.certificates.examine(this.socket, this.#examined);
    return this.#examined.certificate;
  }

  /** True when the connection has exceeded its time limit. */
  overdue(now: number, limits: Limits): boolean {
    const lasted = now - this.#since;
    switch (this.#phase) {
      case "idle":
        return lasted > limits.idleMs;
      case "head":
        return lasted > limits.headMs;
      case "live":
        return false;
      case "request":
        if (!this.waiting || this.moved - this.#mark >= LEAST_BYTES) {
          this.#since = now;
          this.#mark = this.moved;
          return false;
        }
        return lasted > limits.stallMs;
    }
  }
}

/** All open connections of a listener. */
export class Peers {
  #peers = new Map<Socket, Peer>();
  #timer: ReturnType<typeof setInterval>;
  #empty: (() => void)[] = [];
  closing = false;

  constructor(limits: Limits, private readonly certificates?: ClientCertificates) {
    const every = Math.min(limits.headMs, limits.idleMs, limits.stallMs) / 4;
    this.#timer = setInterval(() => {
      const now = performance.now();
      for (const [socket, peer] of this.#peers) {
        if (!peer.overdue(now, limits)) continue;
        // TLS ends with a message (close_notify). A client that does not read it is cut off the next time.
        if (peer.phase === "idle" && !socket.writableEnded) socket.end(() => socket.destroy());
        else socket.destroy();
      }
    }, Math.max(10, Math.min(every, 5000)));
    Deno.unrefTimer(this.#timer);
  }

  add(socket: Socket): Peer {
    const peer = new Peer(socket, this.certificates);
    this.#peers.set(socket, peer);
    socket.once("close", () => {
      this.#peers.delete(socket);
      peer.closed();
      if (this.#peers.size === 0) { for (const resolve of this.#empty.splice(0)) resolve(); }
    });
    return peer;
  }

  /** Undefined where the connection has closed. */
  of(socket: Socket): Peer | undefined {
    return this.#peers.get(socket);
  }

  /** A request has ended: the connection waits for the next, or closes. */
  rest(peer: Peer): void {
    peer.phase = "idle";
    peer.waiting = false;
    if (this.closing) peer.socket.end(() => peer.socket.destroy());
  }

  /** Closes connections without a request; the others close after theirs. Resolves when all are closed. */
  drain(): Promise<void> {
    this.closing = true;
    for (const { phase, socket } of this.#peers.values()) {
      if (phase === "idle" || phase === "head") socket.destroy();
    }
    clearInterval(this.#timer);
    if (this.#peers.size === 0) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#empty.push(resolve);
    return promise;
  }

  destroy(): void {
    this.closing = true;
    clearInterval(this.#timer);
    for (const socket of [...this.#peers.keys()]) socket.destroy();
  }
}
