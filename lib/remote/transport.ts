/**
 * Requests to another registry: authorization, redirects that do not leak it, bounded retries, and time
 * limits on silence instead of on whole transfers.
 */
import { isAbort, SvcError, systemCode } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { sleep } from "../base/sleep.ts";
import { Authorizer, type Credentials } from "./auth.ts";
import { readObject } from "./bounded.ts";

export interface TransportOptions {
  /** "host[:port]". */
  host: string;
  plainHTTP: boolean;
  credentials: () => Promise<Credentials | undefined>;
  userAgent: string;
  /** Makes the connections; absent: Deno's own, which follows the proxy variables. */
  client?: Deno.HttpClient;
  log: Logger;
  /** Longest silence in milliseconds before a request or a read fails; default 30000. */
  stallMs?: number;
  /** Attempts of one request; default 5. */
  attempts?: number;
  /** First pause between attempts in milliseconds, doubled each time; default 200. */
  pauseMs?: number;
  /** The Via field, for requests made on behalf of another client (RFC 9110 7.6.3). */
  via?: string;
}

export interface RequestOptions {
  method?: string;
  headers?: Record<string, string>;
  body?: Uint8Array<ArrayBuffer>;
  /** Scope in the token flow, such as "repository:NAME:pull". */
  scope: string;
  signal?: AbortSignal;
  /** False where repeating the request would do harm: the caller recovers by itself. */
  retry?: boolean;
}

const MAX_REDIRECTS = 6;
/** Longest pause that a server may ask for, in milliseconds; a longer one fails the request. */
const MAX_PAUSE = 30_000;
const PASSING = new Set([408, 429, 500, 502, 503, 504]);

/** True for failures that a second attempt may avoid: of the connection, silence, an overloaded server. */
export function isPassing(error: unknown): boolean {
  return error instanceof SvcError && (error.detail?.passing === true);
}

/** The server's error text from the specification's JSON; empty for another form. */
async function errorText(response: Response): Promise<string> {
  try {
    const { errors } = await readObject(response, 64 * 1024, "") as {
      errors?: { code?: string; message?: string }[];
    };
    const words = (errors ?? []).map((e) => [e.code, e.message].filter(Boolean).join(": "));
    return words.length > 0 ? ` (${words.join("; ")})` : "";
  } catch {
    return ""; // not the specification's form, or too long: a proxy's error page
  }
}

/** The error for an unexpected answer; reads the answer's body. */
export async function refusal(
  attempted: string,
  host: string,
  response: Response,
): Promise<SvcError> {
  const { status } = response;
  const code = status === 401
    ? "unauthorized"
    : status === 403
    ? "denied"
    : status === 413
    ? "too_large"
    : status === 429
    ? "unavailable"
    : "upstream_failed";
  return new SvcError(
    code,
    `${attempted}: ${host} answered ${status}${await errorText(response)}`,
    { detail: { status, ...(PASSING.has(status) ? { passing: true } : {}) } },
  );
}

function pauseOf(response: Response | undefined, planned: number): number {
  const after = response?.headers.get("retry-after");
  if (!after) return planned;
  const ms = /^\d+$/.test(after) ? Number(after) * 1000 : Date.parse(after) - Date.now();
  return Number.isFinite(ms) ? Math.max(planned, ms) : planned;
}

/** The system's own message: fetch puts it at the end of a chain of causes. */
export function lastWords(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const text = cause instanceof Error ? cause.message : String(cause);
  const last = text.split(": ").at(-1)!.replace(/ \(os error \d+\)$/, "");
  return last.charAt(0).toLowerCase() + last.slice(1);
}

export class Transport {
  readonly base: URL;
  readonly host: string;
  readonly stallMs: number;
  readonly attempts: number;
  readonly #options: TransportOptions;
  readonly #authorizer: Authorizer;

  /** `authorizer`: that of another transport to the same registry, to share its tokens. */
  constructor(options: TransportOptions, authorizer?: Authorizer) {
    this.#options = options;
    this.host = options.host;
    this.stallMs = options.stallMs ?? 30_000;
    this.attempts = options.attempts ?? 5;
    // docker.io's registry has a host name of its own.
    const address = options.host === "docker.io" ? "registry-1.docker.io" : options.host;
    this.base = new URL(`${options.plainHTTP ? "http" : "https"}://${address}/v2/`);
    this.#authorizer = authorizer ?? new Authorizer({
      host: options.host,
      plainHTTP: options.plainHTTP,
      credentials: options.credentials,
      fetch: (url, init, signal) => this.#persist(() => this.#once(url, init, signal), signal),
    });
  }

  /** A transport for the same registry with the same tokens, and a Via field. */
  through(via: string): Transport {
    return new Transport({ ...this.#options, via }, this.#authorizer);
  }

  /** Milliseconds before attempt `n` (from 1), with jitter. */
  pause(n: number): number {
    return (this.#options.pauseMs ?? 200) * 2 ** (n - 1) * (0.75 + Math.random() / 2);
  }

  /**
   * One exchange; redirects are followed, and passing failures retried. Returns a response of any status but
   * 401. Throws `unauthorized`, `upstream_failed`, `timeout`, or the signal's reason.
   */
  async request(path: string | URL, options: RequestOptions): Promise<Response> {
    const url = new URL(path, this.base);
    const attempt = () => this.#authorized(url, options);
    return options.retry === false ? await attempt() : await this.#persist(attempt, options.signal);
  }

  async #persist(attempt: () => Promise<Response>, signal?: AbortSignal): Promise<Response> {
    for (let n = 1;; n++) {
      let response: Response | undefined;
      try {
        response = await attempt();
        if (!PASSING.has(response.status) || n === this.attempts) return response;
      } catch (error) {
        if (!isPassing(error) || n === this.attempts) throw error;
        this.#options.log.debug("registry request failed, trying again", {
          host: this.host,
          attempt: n,
          error,
        });
      }
      const pause = pauseOf(response, this.pause(n));
      if (pause > MAX_PAUSE) return response!;
      await response?.body?.cancel();
      await sleep(pause, signal);
    }
  }

  async #authorized(url: URL, options: RequestOptions): Promise<Response> {
    const first = await this.#follow(url, options, this.#authorizer.known(options.scope));
    const challenge = first.headers.get("www-authenticate");
    if (first.status !== 401 || !challenge) return first;
    await first.body?.cancel();
    const header = await this.#authorizer.answer(challenge, options.scope, options.signal);
    const second = await this.#follow(url, options, header);
    if (second.status !== 401) return second;
    throw await refusal(`Cannot use registry ${this.host}`, this.host, second);
  }

  async #follow(start: URL, options: RequestOptions, authorization?: string): Promise<Response> {
    let url = start;
    for (let hops = 0;; hops++) {
      const headers: Record<string, string> = { ...options.headers };
      // Storage behind a redirect must not get the registry's credentials.
      if (url.origin === this.base.origin) {
        if (authorization) headers.authorization = authorization;
        if (this.#options.via) headers.via = this.#options.via;
      }
      const response = await this.#once(
        url,
        { method: options.method ?? "GET", headers, body: options.body },
        options.signal,
      );
      const location = response.headers.get("location");
      if (![301, 302, 303, 307, 308].includes(response.status) || !location) return response;
      await response.body?.cancel();
      if (hops === MAX_REDIRECTS || !URL.canParse(location, url)) {
        throw new SvcError(
          "upstream_failed",
          `Cannot follow ${this.host}: it redirects ${
            hops === MAX_REDIRECTS ? "in circles" : "to no URL"
          }`,
        );
      }
      url = new URL(location, url);
    }
  }

  /** One request; silence before the response's headers ends it. */
  async #once(url: URL, init: RequestInit, signal?: AbortSignal): Promise<Response> {
    signal?.throwIfAborted();
    const stop = new AbortController();
    const timer = setTimeout(
      () => stop.abort(new DOMException("no answer in time", "TimeoutError")),
      this.stallMs,
    );
    const headers = new Headers(init.headers);
    headers.set("user-agent", this.#options.userAgent);
    // A compressed answer would invalidate sizes, ranges and digests.
    headers.set("accept-encoding", "identity");
    try {
      // The caller's signal also covers the body; the timer only covers the time until the headers.
      const both = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
      const { client } = this.#options;
      return await fetch(url, { ...init, headers, redirect: "manual", signal: both, client });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw this.failure(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Turns a broken connection or silence into an error of the catalogue; others are unchanged. */
  failure(error: unknown): unknown {
    if (error instanceof SvcError || isAbort(error)) return error;
    const silent = error instanceof DOMException && error.name === "TimeoutError";
    const why = silent
      ? `nothing came for ${this.stallMs / 1000} s`
      : systemCode((error as Error).cause) ?? lastWords(error);
    return new SvcError(
      silent ? "timeout" : "upstream_failed",
      `Cannot reach registry ${this.host}: ${why}`,
      { cause: error, detail: { passing: true, unreachable: this.host } },
    );
  }
}
