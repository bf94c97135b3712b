/**
 * The split-tunnel proxy of the client (SPEC.md "Socks5"): services are reached through svc's server, every
 * other host straight from this machine.
 */
import { createServer, type Server, type Socket } from "node:net";
import { isAbort, SvcError, systemCode } from "../../base/errors.ts";
import { openFileLimit } from "../../base/open_files.ts";
import { formatAddress, type ListenAddress, parseAddress } from "../../config/address.ts";
import { ahead as readAhead, type Duplex } from "../../wire/duplex.ts";
import { relay } from "../../wire/relay.ts";
import { socketDuplex } from "../../wire/socket_duplex.ts";
import { LiveNames } from "./live_names.ts";
import type { Services } from "./services.ts";
import { dialDirect, replyOf } from "../../wire/socks5/direct.ts";
import { handshake, REPLY, replyBytes } from "../../wire/socks5/protocol.ts";
import { canonicalHost, Resolver } from "./socks5_resolve.ts";
import { type ResolveRule, ResolveRules } from "./socks5_rules.ts";
import { sparingly } from "./told.ts";

export const DEFAULT_SOCKS5_LISTEN = "127.0.0.1:1080";
export const DEFAULT_SERVICE_HOST_SUFFIX = ".svc.internal";

export interface Socks5Limits {
  /** Connections at once; fewer where this process may not open enough files. */
  connections: number;
  /** Milliseconds that a client may take for its greeting and its request. */
  handshakeMs: number;
  /** Milliseconds that a connection may take to be made. */
  connectMs: number;
  /** Milliseconds that a refused client may take to close its connection. */
  partingMs: number;
  /** Milliseconds that a rule's pattern may take to match. */
  ruleMs: number;
  /** Milliseconds that the list of deployments is used for. */
  namesMs: number;
  /** Milliseconds that the server may take to list them. */
  namesWaitMs: number;
}

const LIMITS: Socks5Limits = {
  connections: 1024,
  handshakeMs: 10_000,
  connectMs: 60_000,
  partingMs: 2_000,
  ruleMs: 1_000,
  namesMs: 2_000,
  namesWaitMs: 5_000,
};

/** Makes the connection for one request. */
export type Route = (signal: AbortSignal) => Promise<Duplex>;

export interface Socks5Options {
  /** `[host]:port`; port 0 is any free one. */
  listen: string;
  services: Services;
  /** Resolve rules in their order. Where there is at least one, the suffix has no effect. */
  rules?: readonly ResolveRule[];
  /** Default {@linkcode DEFAULT_SERVICE_HOST_SUFFIX}. */
  suffix?: string;
  /** A host without a dot that is a running deployment's name goes to it, after rules and suffix; default true. */
  bareServiceNames?: boolean;
  /**
   * Called before all other rules: the route of a host (lower case, no trailing dot) that is served elsewhere.
   */
  route?: (host: string, port: number) => Route | undefined;
  /** One line for a person. */
  warn: (text: string) => void;
  /** Closes the proxy. */
  signal?: AbortSignal;
  limits?: Partial<Socks5Limits>;
}

export interface Socks5 extends AsyncDisposable {
  /** "127.0.0.1:1080", with the port that is listened on. */
  readonly address: string;
  /** Resolves when nothing is open any more; rejects where the listener broke by itself. */
  readonly closed: Promise<void>;
}

/** Descriptors of one connection: its two sockets, and those that making it may need. */
const DESCRIPTORS_EACH = 4;
const LEAST = 16;

/**
 * Connections that this process can afford: once a listener of Deno found no descriptor, it never accepts
 * again.
 */
async function affordable(connections: number): Promise<number> {
  const most = Math.floor(await openFileLimit() / DESCRIPTORS_EACH);
  return Math.min(connections, Math.max(LEAST, most));
}

/** Rejects with the signal's reason; a connection that is made after that is reset. */
function dialled(route: Route, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    const done = () => signal.removeEventListener("abort", abort);
    route(signal).then(
      (stream) => {
        done();
        if (signal.aborted) stream.reset();
        else resolve(stream);
      },
      (error) => {
        done();
        reject(error);
      },
    );
  });
}

const isLoopback = (address: string) => /^(127\.|::1$|::ffff:127\.)/.test(address);

const ELSEWHERE = "choose another address with --listen or conduit.socks5.listen";

const UNBOUND: Record<string, string> = {
  EADDRINUSE: "address in use",
  EADDRNOTAVAIL: "this machine has no such address",
  EINVAL: "this machine has no such address",
  ENOTFOUND: "there is no address of that name",
  EACCES: "this user may not listen there",
};

function bind(server: Server, { hostname, port }: ListenAddress, text: string) {
  return new Promise<void>((resolve, reject) => {
    const refuse = (cause: Error) => {
      const code = systemCode(cause) ?? "";
      const taken = code === "EADDRINUSE";
      reject(
        new SvcError(
          taken ? "address_in_use" : "config_invalid",
          `Cannot open the SOCKS5 proxy on ${text}: ${UNBOUND[code] ?? cause.message}`,
          { cause, help: taken ? `stop what listens there, or ${ELSEWHERE}` : ELSEWHERE },
        ),
      );
    };
    server.once("error", refuse);
    server.listen({ port, ...(hostname !== undefined && { host: hostname }) }, () => {
      server.off("error", refuse);
      resolve();
    });
  });
}

function readListen(text: string): ListenAddress {
  try {
    return parseAddress(text, "the address of the SOCKS5 proxy");
  } catch (cause) {
    throw new SvcError("config_invalid", (cause as Error).message, { cause, help: ELSEWHERE });
  }
}

class Socks5Proxy implements Socks5 {
  readonly #server: Server;
  readonly #options: Socks5Options;
  readonly #limits: Socks5Limits;
  readonly #resolver: Resolver;
  readonly #services: Services;
  readonly #tell: (key: string, text: string) => void;
  readonly #stop = new AbortController();
  readonly #open = new Map<Duplex, Promise<void>>();
  readonly #closed = Promise.withResolvers<void>();
  #full = false;
  address = "";

  constructor(server: Server, options: Socks5Options, limits: Socks5Limits, resolver: Resolver) {
    this.#server = server;
    this.#options = options;
    this.#limits = limits;
    this.#resolver = resolver;
    this.#services = options.services;
    this.#tell = sparingly(options.warn);
    this.#closed.promise.catch(() => {/* the caller of `closed` is told */});
  }

  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  start(): void {
    const { address, port } = this.#server.address() as { address: string; port: number };
    this.address = formatAddress({ hostname: address, port });
    if (!isLoopback(address)) {
      this.#options.warn(
        `the SOCKS5 proxy listens on ${this.address}: whoever reaches it reaches the workloads, and ` +
          "everything else from this machine, without a password; 127.0.0.1 is for this machine alone",
      );
    }
    this.#server.on("connection", (socket) => this.#accept(socket));
    this.#server.on("error", (cause) => {
      const message = `Cannot go on listening on ${this.address}: ${cause.message}`;
      void this.#end(new SvcError("internal", message, { cause }));
    });
  }

  #accept(socket: Socket): void {
    const stream = socketDuplex(socket);
    if (this.#stop.signal.aborted) return stream.reset();
    if (this.#open.size >= this.#limits.connections) {
      if (!this.#full) {
        this.#options.warn(
          `the SOCKS5 proxy has ${this.#limits.connections} connections: more are refused until some end`,
        );
      }
      this.#full = true;
      return stream.reset();
    }
    socket.setNoDelay(true);
    const served = this.#serve(stream).finally(() => {
      stream.reset();
      this.#open.delete(stream);
      if (this.#open.size < this.#limits.connections / 2) this.#full = false;
    });
    this.#open.set(stream, served);
  }

  /** Never throws: the client sees the failure; a person is told of what a person can correct. */
  async #serve(stream: Duplex): Promise<void> {
    const timer = setTimeout(() => {
      const limit = `${this.#limits.handshakeMs} ms`;
      this.#tell("slow", `a SOCKS5 client sent no request within ${limit}: it was hung up on`);
      stream.reset();
    }, this.#limits.handshakeMs);
    try {
      const asked = await handshake(stream).finally(() => clearTimeout(timer));
      if (asked.kind === "refused") {
        this.#tell(asked.why, `a client of the SOCKS5 proxy was refused: ${asked.why}`);
        await this.#part(stream, asked.answer);
      } else if (asked.kind === "connect") {
        await this.#connect(stream, asked);
      }
    } catch {
      // the client's connection, or the one it asked for, broke: it sees so
    }
  }

  async #connect(
    stream: Duplex,
    { host: sent, port, ahead }: { host: string; port: number; ahead: Uint8Array },
  ): Promise<void> {
    const host = canonicalHost(sent);
    // One read is started while the connection is made: it fails when the client has gone.
    const gone = new AbortController();
    const next = stream.read();
    next.catch((error) => gone.abort(error));
    const late = new AbortController();
    const timer = setTimeout(
      () => late.abort(new SvcError("timeout", this.#lateText(host, port))),
      this.#limits.connectMs,
    );
    const signal = AbortSignal.any([this.#stop.signal, gone.signal, late.signal]);
    let remote: Duplex;
    try {
      remote = await dialled(await this.#routeOf(host, port, signal), signal);
    } catch (error) {
      if (this.#stop.signal.aborted || gone.signal.aborted) return;
      const why = late.signal.aborted ? late.signal.reason : error;
      if (!isAbort(why)) this.#tell(`${host}:${port}`, (why as Error).message);
      return await this.#part(stream, replyBytes(replyOf(why)), next);
    } finally {
      clearTimeout(timer);
    }
    try {
      await stream.write(replyBytes(REPLY.succeeded));
      await relay(readAhead(stream, ahead, next), remote);
    } finally {
      remote.reset();
    }
  }

  #lateText(host: string, port: number): string {
    const seconds = this.#limits.connectMs / 1000;
    return `Cannot connect to ${formatAddress({ hostname: host, port })}: not made in ${seconds} s`;
  }

  async #routeOf(host: string, port: number, signal: AbortSignal): Promise<Route> {
    const other = this.#options.route?.(host, port);
    if (other) return other;
    const inward = await this.#resolver.resolve(host, port);
    signal.throwIfAborted();
    return inward
      ? (signal) => this.#services.dial(inward.name, inward.port, "tcp", signal)
      : (signal) => dialDirect(host, port, signal);
  }

  /**
   * Writes the answer, then reads until the client closes: data left unread would reset the connection and lose
   * the answer.
   */
  async #part(stream: Duplex, answer: Uint8Array, next?: Promise<unknown>): Promise<void> {
    const timer = setTimeout(() => stream.reset(), this.#limits.partingMs);
    try {
      if (answer.length > 0) await stream.write(answer);
      await stream.closeWrite();
      for (let bytes = await (next ?? stream.read()); bytes;) bytes = await stream.read();
    } finally {
      clearTimeout(timer);
    }
  }

  /** Idempotent. */
  async #end(failure?: SvcError): Promise<void> {
    if (!this.#stop.signal.aborted) {
      this.#stop.abort(new DOMException("the SOCKS5 proxy was closed", "AbortError"));
      const server = new Promise((resolve) => this.#server.close(resolve));
      for (const stream of this.#open.keys()) stream.reset();
      await Promise.all([server, ...this.#open.values()]);
      if (failure) this.#closed.reject(failure);
      else this.#closed.resolve();
    }
    await this.#closed.promise.catch(() => {/* told by closed */});
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#end();
  }
}

/** Throws `config_invalid` for an invalid address, suffix or rule, `address_in_use`. */
export async function openSocks5(options: Socks5Options): Promise<Socks5> {
  const { services, rules = [], warn, signal } = options;
  signal?.throwIfAborted();
  const limits = { ...LIMITS, ...options.limits };
  limits.connections = await affordable(limits.connections);
  const listen = readListen(options.listen);
  const names = new LiveNames(services, {
    keepMs: limits.namesMs,
    waitMs: limits.namesWaitMs,
    warn,
  });
  const resolver = new Resolver({
    suffix: options.suffix ?? DEFAULT_SERVICE_HOST_SUFFIX,
    ...(rules.length > 0 && { rules: await ResolveRules.compile(rules, limits.ruleMs) }),
    ...(options.bareServiceNames !== false && { isLive: (name) => names.has(name) }),
  });
  const server = createServer({ allowHalfOpen: true });
  await bind(server, listen, options.listen);
  const proxy = new Socks5Proxy(server, options, limits, resolver);
  proxy.start();
  const abort = () => void proxy[Symbol.asyncDispose]();
  signal?.addEventListener("abort", abort, { once: true });
  void proxy.closed.catch(() => {}).then(() => signal?.removeEventListener("abort", abort));
  if (signal?.aborted) abort();
  return proxy;
}
