/**
 * A reverse proxy of HTTP/1.1 on byte streams. Why it is not node's server and client:
 * docs/decisions/ingress-http.md.
 *
 * Each message is read whole by one strict reader and written anew, its body by the framing that was read:
 * what a client sends can be taken for one request only. Each request has a connection of its own to the
 * workload. Trailers and chunk extensions end here. A client that ends its side has gone.
 */
import type { Logger } from "../base/log.ts";
import type { Duplex } from "../wire/duplex.ts";
import { Deadline } from "./deadline.ts";
import { Exchange } from "./exchange.ts";
import { HeadError, parseRequestHead, type RequestHead } from "./head.ts";
import { requestedHost } from "./host_name.ts";
import { EndedEarly } from "./inlet.ts";
import type { Arrival, IngressProxy, IngressProxyOptions, ProxyLimits } from "./interface.ts";
import { renderRefusal } from "./refusal.ts";
import { Side } from "./side.ts";

export type { IngressProxy, IngressProxyOptions } from "./interface.ts";

export const LIMITS: ProxyLimits = {
  headMs: 30_000,
  idleMs: 75_000,
  stallMs: 120_000,
  dialMs: 10_000,
  answerMs: 600_000,
  headBytes: 64 * 1024,
};

/** Milliseconds that a client may take to read its last answer, and bytes that it may still send. */
const LINGER_MS = 2000;
const LINGER_BYTES = 1024 ** 2;

/** Characters of a path in the log. */
const MAX_LOGGED = 256;

export function createIngressProxy(options: IngressProxyOptions): IngressProxy {
  const served = new Set<Served>();
  const limits = { ...LIMITS, ...options.limits };
  let draining = false;
  let idle = Promise.withResolvers<void>();
  return {
    get open() {
      return served.size;
    },
    get inFlight() {
      return [...served].filter((one) => !one.resting).length;
    },
    async accept(stream, arrival) {
      if (draining) return stream.reset();
      const one = new Served(stream, arrival, { ...options, limits, last: () => draining });
      if (served.size === 0) idle = Promise.withResolvers();
      served.add(one);
      await one.run();
      served.delete(one);
      if (served.size === 0) idle.resolve();
    },
    async drain() {
      draining = true;
      for (const one of served) if (one.resting) one.end();
      if (served.size > 0) await idle.promise;
    },
    [Symbol.dispose]() {
      draining = true;
      for (const one of served) one.end();
    },
  };
}

interface ServedOptions extends IngressProxyOptions {
  limits: ProxyLimits;
  last: () => boolean;
}

/** The stream of one client. */
class Served {
  /** True while no answer is pending: between two requests, and after a switch to another protocol. */
  resting = true;
  #client: Side;

  constructor(
    stream: Duplex,
    private readonly arrival: Arrival,
    private readonly options: ServedOptions,
  ) {
    this.#client = new Side(stream, options.limits.stallMs);
  }

  end(): void {
    this.#client.end();
  }

  /** Never rejects. */
  async run(): Promise<void> {
    try {
      while (await this.#one());
    } catch {
      // The stream broke, or was broken to tell the client; a pending request logs that.
    } finally {
      this.#client.end();
    }
  }

  /** Serves one request; false: it was the last. */
  async #one(): Promise<boolean> {
    const { limits, last } = this.options;
    const { inlet } = this.#client;
    this.resting = true;
    if (!await this.#client.within(limits.idleMs, () => inlet.fill())) return false;
    this.resting = false;
    const asked = await this.#ask();
    if (!asked) return false;
    const { request, exchange } = asked;
    const keep = await (exchange ? this.#follow(exchange, request) : this.#nobody(request));
    if (keep && !last()) return true;
    await this.#linger(exchange?.sending);
    return false;
  }

  /** Reads the next request and finds its route. Undefined: no request that could be answered came. */
  async #ask(): Promise<{ request: RequestHead; exchange?: Exchange } | undefined> {
    try {
      const bytes = await this.#head();
      if (!bytes) return undefined;
      const request = parseRequestHead(bytes);
      return { request, exchange: this.#begin(request) };
    } catch (error) {
      if (!(error instanceof HeadError)) throw error;
      const { status, message: reason } = error;
      this.options.log.debug("ingress refused", { status, reason, remote: this.arrival.remote });
      await this.#client.write(renderRefusal({ status, reason }, { close: true }));
      await this.#linger();
      return undefined;
    }
  }

  async #head(): Promise<Uint8Array | undefined> {
    const { limits } = this.options;
    const client = this.#client;
    client.waiting.set(limits.headMs, () => {
      const late = { status: 408, reason: "the request's head took too long" };
      client.write(renderRefusal(late, { close: true }))
        .catch(() => {/* it is cut in any case */}).finally(() => client.end());
    });
    try {
      return await client.inlet.head(limits.headBytes, { blank: true });
    } catch (error) {
      if (error instanceof EndedEarly) return undefined;
      throw error;
    } finally {
      client.waiting.clear();
    }
  }

  /** Undefined: no deployment answers there. */
  #begin(request: RequestHead): Exchange | undefined {
    const { match, dial, limits, last } = this.options;
    const host = requestedHost(request.authority);
    if (host === undefined) throw new HeadError("the host is malformed");
    const route = match(this.arrival.as?.host ?? host, request.path);
    return route && new Exchange(request, {
      client: this.#client,
      arrival: this.arrival,
      route,
      dial,
      limits,
      last,
      switched: () => {
        this.resting = true;
        if (last()) this.end();
      },
    });
  }

  async #follow(exchange: Exchange, request: RequestHead): Promise<boolean> {
    const { log } = this.options;
    const { deployment } = exchange.route;
    const started = performance.now();
    const ms = () => Math.round(performance.now() - started);
    try {
      const { keep, status, error } = await exchange.run();
      const write = error === undefined ? log.info : log.warn;
      this.#tell(write, request, { status, deployment, ms: ms(), error });
      return keep;
    } catch (error) {
      this.#tell(log.info, request, { deployment, ms: ms(), cut: true, error });
      throw error;
    }
  }

  async #nobody(request: RequestHead): Promise<boolean> {
    const { last } = this.options;
    const { method, authority, keepAlive, framing } = request;
    const keep = keepAlive && framing.kind === "none" && !last();
    const reason = `no deployment answers at ${authority || "a request without a host"}` +
      (authority ? " and this path" : "");
    await this.#client.write(renderRefusal({ status: 404, reason }, { method, close: !keep }));
    this.#tell(this.options.log.info, request, { status: 404 });
    return keep;
  }

  #tell(write: Logger["info"], request: RequestHead, fields: Record<string, unknown>): void {
    const { method, authority, path } = request;
    const { remote } = this.arrival;
    write("ingress", {
      remote,
      method,
      host: authority,
      path: path.length > MAX_LOGGED ? `${path.slice(0, MAX_LOGGED)}…` : path,
      ...fields,
    });
  }

  /** Lets the client read its last answer before the connection closes, and drops what it still sends. */
  async #linger(sending?: Promise<void>): Promise<void> {
    const client = this.#client;
    const patience = new Deadline();
    patience.set(LINGER_MS, () => client.end());
    try {
      await client.stream.closeWrite();
      await sending;
      for (let left = LINGER_BYTES; left > 0;) {
        if (!await client.inlet.fill()) return;
        left -= client.inlet.take().length;
      }
    } finally {
      patience.end();
    }
  }
}
