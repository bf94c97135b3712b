/** What ingress asks of those who bring it connections, and what it gives them. */
import type { IngressRoute } from "../api/ingress.ts";
import type { Logger } from "../base/log.ts";
import type { Duplex } from "../wire/duplex.ts";

/** Where a stream of HTTP/1.1 comes from. */
export interface Arrival {
  /** What the client speaks, with whoever ended TLS before this. */
  scheme: "http" | "https";
  /** The client's address without its port, for `X-Forwarded-For`; absent: not known. */
  remote?: string;
  /**
   * The client is a proxy of the owner's: what it says in `X-Forwarded-*` is believed and added to. Of all
   * others these fields are replaced.
   */
  trusted?: boolean;
  /**
   * The declared host that answers, whatever host the requests name; with `rewrite` the workload is told
   * that one as its own `Host`.
   */
  as?: { host: string; rewrite: boolean };
}

export interface ProxyLimits {
  /** Milliseconds a head may take, of a request and of an answer that has begun. */
  headMs: number;
  /** Milliseconds a connection may wait for its next request. */
  idleMs: number;
  /** Milliseconds in which one write, or one read of a body that is sent, must get on. */
  stallMs: number;
  /** Milliseconds a workload may take to be connected to. */
  dialMs: number;
  /** Milliseconds a workload may take to begin its answer. */
  answerMs: number;
  /** Bytes of a head, of either side. */
  headBytes: number;
}

export interface IngressProxyOptions {
  /** `host` as `requestedHost` gives it, `path` without its query; undefined: nobody answers there. */
  match(host: string, path: string): IngressRoute | undefined;
  /**
   * A connection to the route's port. What it throws becomes the answer: 504 for `timeout`, 503 for
   * `not_found`, `conflict` and `unavailable` (it does not run), 502 for everything else.
   */
  dial(route: IngressRoute, signal: AbortSignal): Promise<Duplex>;
  log: Logger;
  limits?: Partial<ProxyLimits>;
}

/** A reverse proxy of HTTP/1.1 on byte streams. */
export interface IngressProxy extends Disposable {
  /** Connections that are being served. */
  readonly open: number;
  /** Requests whose answers are waited for. */
  readonly inFlight: number;
  /** Serves a stream to its end and resets it then. Never throws. */
  accept(stream: Duplex, arrival: Arrival): Promise<void>;
  /** Takes no more requests; resolves when those in flight have ended. Idle connections end at once. */
  drain(): Promise<void>;
  /** Ends everything at once. */
  [Symbol.dispose](): void;
}
