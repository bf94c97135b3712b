/** The interface between ingress and those who bring it connections. */
import type { IngressRoute } from "../api/ingress.ts";
import type { Logger } from "../base/log.ts";
import type { Duplex } from "../wire/duplex.ts";

/** The origin of a stream of HTTP/1.1. */
export interface Arrival {
  /** The scheme that the client uses; TLS has ended before this. */
  scheme: "http" | "https";
  /** The client's address without its port, for `X-Forwarded-For`; absent: not known. */
  remote?: string;
  /**
   * True for a proxy of the owner's: its `X-Forwarded-*` fields are trusted and extended. Other clients' fields
   * are replaced.
   */
  trusted?: boolean;
  /**
   * The declared host that answers, whatever host the requests name; with `rewrite` the workload gets it as
   * `Host`.
   */
  as?: { host: string; rewrite: boolean };
}

export interface ProxyLimits {
  /** Milliseconds for a head: of a request, or of an answer that has begun. */
  headMs: number;
  /** Milliseconds that a connection may wait for its next request. */
  idleMs: number;
  /** Milliseconds without progress of a write, or of a read in a body. */
  stallMs: number;
  /** Milliseconds for a connection to a workload. */
  dialMs: number;
  /** Milliseconds for a workload to begin its answer. */
  answerMs: number;
  /** Bytes of a head, on either side. */
  headBytes: number;
}

export interface IngressProxyOptions {
  /** `host` as from `requestedHost`, `path` without its query; undefined: no deployment answers there. */
  match(host: string, path: string): IngressRoute | undefined;
  /**
   * Connects to the route's port. Errors become answers: 504 for `timeout`, 503 for `not_found`, `conflict` and
   * `unavailable` (the workload does not run), 502 for all others.
   */
  dial(route: IngressRoute, signal: AbortSignal): Promise<Duplex>;
  log: Logger;
  limits?: Partial<ProxyLimits>;
}

/** A reverse proxy of HTTP/1.1 on byte streams. */
export interface IngressProxy extends Disposable {
  /** Number of connections that are being served. */
  readonly open: number;
  /** Number of requests whose answers are pending. */
  readonly inFlight: number;
  /** Serves a stream to its end, then resets it. Never throws. */
  accept(stream: Duplex, arrival: Arrival): Promise<void>;
  /** Takes no more requests; resolves when those in flight have ended. Idle connections end at once. */
  drain(): Promise<void>;
  /** Ends everything at once. */
  [Symbol.dispose](): void;
}
