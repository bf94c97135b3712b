/**
 * The relay beside a workload: it takes the workload's connections, decides their routes and has them dialled.
 * It is the same code in a companion and in a server that plays one (a listener in the workload's network).
 */
import type { EgressRoute } from "../api/egress.ts";
import { SvcError } from "../base/errors.ts";
import { ahead, connDuplex, type Duplex } from "../wire/duplex.ts";
import { relay } from "../wire/relay.ts";
import { replyOf } from "../wire/socks5/direct.ts";
import { handshake, REPLY, replyBytes } from "../wire/socks5/protocol.ts";
import { proxyAnswer, readProxyRequest } from "./http_head.ts";
import { egressHost, type EgressPolicy, type EgressTarget } from "./policy.ts";
import { place, requireRoute } from "./reach.ts";

/** Makes one connection by a route. It decides again, by what it knows: the relay is not believed. */
export type EgressDial = (target: EgressTarget, signal: AbortSignal) => Promise<Duplex>;

/** A route without a member is not to be had. */
export type EgressDialers = Partial<Record<Exclude<EgressRoute, "deny">, EgressDial>>;

/** Takes the workload's connections. */
export interface EgressListener {
  /** `target`: where the connection is led away from; absent: its client speaks to a proxy, and says so. */
  accept(): Promise<{ stream: Duplex; target?: EgressTarget }>;
  close(): void;
}

/** For clients that speak to a proxy. */
export const proxyListener = (listener: Deno.TcpListener): EgressListener => ({
  async accept() {
    const connection = await listener.accept();
    connection.setNoDelay(true);
    return { stream: connDuplex(connection) };
  },
  close: () => listener.close(),
});

export interface EgressRelayOptions {
  /** In the workload's network; the relay closes it. */
  listener: EgressListener;
  policy: EgressPolicy;
  dialers: EgressDialers;
  /** Called once for each failure; `error.code` is "denied" where a rule refused. */
  onFailure?: (target: EgressTarget, error: SvcError) => void;
  limits?: Partial<EgressLimits>;
}

export interface EgressLimits {
  /** Connections of one workload at once; more are closed. */
  connections: number;
  /** Milliseconds that a client may take for its request. */
  requestMs: number;
  /** Milliseconds that a connection may take to be made. */
  connectMs: number;
}

const LIMITS: EgressLimits = { connections: 1024, requestMs: 30_000, connectMs: 60_000 };

/** Milliseconds without accepting after accepting has failed. */
const BREATH_MS = 20;

const SOCKS5 = 5;

/** How a client is told what became of its request. */
interface Asked {
  target: EgressTarget;
  /** Before the relayed bytes, to the client; empty: nothing. */
  done: Uint8Array;
  failed: (error: SvcError) => Uint8Array;
  /** To the host, before the client's own bytes. */
  forward: Uint8Array;
  rest: Uint8Array;
}

const NOTHING = new Uint8Array(0);

const STATUS: Partial<Record<SvcError["code"], string>> = {
  denied: "403 Forbidden",
  timeout: "504 Gateway Timeout",
};

async function askedBySocks(stream: Duplex): Promise<Asked | undefined> {
  const asked = await handshake(stream);
  if (asked.kind === "gone") return undefined;
  if (asked.kind === "refused") {
    await stream.write(asked.answer);
    await stream.closeWrite();
    return undefined;
  }
  const host = egressHost(asked.host);
  if (host === undefined) {
    await stream.write(replyBytes(REPLY.hostUnreachable));
    return undefined;
  }
  return {
    target: { host, port: asked.port },
    done: replyBytes(REPLY.succeeded),
    failed: (error) => replyBytes(replyOf(error)),
    forward: NOTHING,
    rest: asked.ahead,
  };
}

async function askedByHttp(stream: Duplex): Promise<Asked | undefined> {
  const request = await readProxyRequest(stream);
  if (!request) {
    await stream.write(proxyAnswer("400 Bad Request", "This is a proxy: HTTP CONNECT and SOCKS5."));
    await stream.closeWrite();
    return undefined;
  }
  const { target, forward, rest } = request;
  return {
    target,
    done: forward ? NOTHING : proxyAnswer("200 Connection Established"),
    failed: (error) => proxyAnswer(STATUS[error.code] ?? "502 Bad Gateway", error.message),
    forward: forward ?? NOTHING,
    rest,
  };
}

/** Of a client that knows of no proxy: it sees its connection closed where there is none. */
const redirected = (target: EgressTarget): Asked => ({
  ...{ target, done: NOTHING, forward: NOTHING, rest: NOTHING },
  failed: () => NOTHING,
});

/** The request of a client of either protocol; undefined where it made none. */
async function readRequest(stream: Duplex): Promise<Asked | undefined> {
  const first = await stream.read();
  if (!first) return undefined;
  const whole = ahead(stream, first);
  return first[0] === SOCKS5 ? await askedBySocks(whole) : await askedByHttp(whole);
}

export class EgressRelay implements Disposable {
  readonly #options: EgressRelayOptions;
  readonly #limits: EgressLimits;
  readonly #open = new Set<Duplex>();
  readonly #end = new AbortController();

  constructor(options: EgressRelayOptions) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    void this.#accept();
  }

  async #accept(): Promise<void> {
    for (;;) {
      let accepted: Awaited<ReturnType<EgressListener["accept"]>>;
      try {
        accepted = await this.#options.listener.accept();
      } catch {
        if (this.#end.signal.aborted) return;
        // The connection was reset before it was accepted, or no descriptor is free.
        await new Promise((resolve) => setTimeout(resolve, BREATH_MS));
        continue;
      }
      const { stream, target } = accepted;
      if (this.#open.size >= this.#limits.connections) stream.reset();
      else void this.#serve(stream, target);
    }
  }

  /** Never throws: the client sees what failed. */
  async #serve(stream: Duplex, target?: EgressTarget): Promise<void> {
    this.#open.add(stream);
    const late = setTimeout(() => stream.reset(), this.#limits.requestMs);
    try {
      const asked = target
        ? redirected(target)
        : await readRequest(stream).finally(() => clearTimeout(late));
      clearTimeout(late);
      if (asked) await this.#connect(stream, asked);
    } catch {
      // The client's connection, or the one it asked for, broke: it sees so.
    } finally {
      clearTimeout(late);
      stream.reset();
      this.#open.delete(stream);
    }
  }

  async #connect(stream: Duplex, { target, done, failed, forward, rest }: Asked): Promise<void> {
    // One read is begun while the connection is made: it fails when the client has gone.
    const gone = new AbortController();
    const next = stream.read();
    next.catch((error) => gone.abort(error));
    let remote: Duplex;
    try {
      remote = await this.#dial(target, AbortSignal.any([gone.signal, this.#end.signal]));
    } catch (error) {
      if (gone.signal.aborted || this.#end.signal.aborted) return;
      const told = this.#failure(target, error);
      this.#options.onFailure?.(target, told);
      const words = failed(told);
      if (words.length === 0) return;
      await stream.write(words);
      return await stream.closeWrite();
    }
    try {
      if (done.length > 0) await stream.write(done);
      if (forward.length > 0) await remote.write(forward);
      await relay(ahead(stream, rest, next), remote);
    } finally {
      remote.reset();
    }
  }

  async #dial(target: EgressTarget, signal: AbortSignal): Promise<Duplex> {
    const { policy, dialers } = this.#options;
    const route = await policy.decide(target);
    await requireRoute(policy, target, route, "the workload's companion");
    const dial = route === "deny" ? undefined : dialers[route];
    if (!dial) throw absent(target, route);
    const late = AbortSignal.timeout(this.#limits.connectMs);
    return await dial(target, AbortSignal.any([signal, late]));
  }

  #failure(target: EgressTarget, error: unknown): SvcError {
    if (error instanceof SvcError) return error;
    const isLate = error instanceof DOMException && error.name === "TimeoutError";
    const why = isLate ? "it was not made in time" : "it broke";
    return new SvcError(
      isLate ? "timeout" : "upstream_failed",
      `Cannot connect to ${place(target)}: ${why}`,
      { cause: error },
    );
  }

  /** Ends all connections, and takes no more. */
  [Symbol.dispose](): void {
    if (this.#end.signal.aborted) return;
    this.#end.abort(new DOMException("the workload's egress has ended", "AbortError"));
    this.#options.listener.close();
    for (const stream of this.#open) stream.reset();
  }
}

const absent = (target: EgressTarget, route: EgressRoute) =>
  new SvcError("denied", `Cannot connect to ${place(target)}: there is no route ${route} here`);
