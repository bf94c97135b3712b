/** The management API's client: JSON calls, event streams and WebSockets, with the server's own errors. */
import { isAbort, SvcError } from "../base/errors.ts";
import {
  API_PREFIX,
  type CallOf,
  type EndpointName,
  endpointPath,
  type EventOf,
  type JsonOf,
  NDJSON_TYPE,
  type SocketPath,
} from "../api/endpoints.ts";
import { readLines } from "./lines.ts";
import { type Answer, callLocally, localAddresses } from "./local_http.ts";
import { isAnswer, isEvent, kindOf, noneOfOurs } from "./ours.ts";
import { responseError } from "./problems.ts";
import { parseServer } from "./server_url.ts";

export { API_PREFIX };
export const EVENTS_TYPE = NDJSON_TYPE;

export interface ClientOptions {
  /** "http://host:port", with a path where the server is behind a path prefix; without a scheme: http. */
  server: string;
  /** Sent as `Authorization: Bearer`. */
  token?: string;
  /**
   * Used instead of `token`: asked before each call. `renew` is called when the server refused the last token.
   */
  credential?: { token(): Promise<string | undefined>; renew(): Promise<boolean> };
  /** How to reach the server, if not by Deno's own client at `server`. */
  way?: {
    base: string;
    http?: Deno.HttpClient;
    explain(): SvcError | undefined | Promise<SvcError | undefined>;
    resumes: boolean;
    /** True once a connection got through: calls that break after that may be repeated. Absent: false. */
    reached?(): boolean;
  };
  /** Ends every call of this client. */
  signal?: AbortSignal;
  /** The environment names a proxy; the client does not use it for a server on this machine. */
  proxied?: boolean;
}

/** Options of a call beside those that its endpoint defines. */
interface Extras {
  /** Media types asked for; default JSON. */
  accept?: string;
  /** Further headers, by lower-case name. */
  headers?: Record<string, string>;
}

/** A call as it is sent. */
interface Call extends Extras {
  params?: Record<string, string>;
  query?: URLSearchParams | Record<string, string | undefined>;
  /** Sent as JSON, instead of `body` and `contentType`. */
  json?: unknown;
  body?: ReadableStream<Uint8Array> | string;
  contentType?: string;
}

/** The argument may be left out where the endpoint requires nothing. */
export type Args<K extends EndpointName> = object extends CallOf<K> ? [call?: CallOf<K> & Extras]
  : [call: CallOf<K> & Extras];

/** Handlers are set before the socket opens: the server may send, and close, at once. */
export interface SocketHandlers {
  /** Sent with the request. */
  headers?: Record<string, string>;
  onMessage: (data: Uint8Array<ArrayBuffer> | string) => void;
  /** Not called for a socket that never opened. */
  onClose: (event: { code: number; reason: string }) => void;
}

export interface Client {
  /** Without a trailing slash. */
  readonly server: string;
  /** True where a broken connection may be opened again: calls that can be repeated should be. */
  readonly resumes: boolean;
  /**
   * One call to an endpoint of the API's table. Resolves for 2xx; throws what the server reported,
   * `server_unreachable` where there is none, or `upstream_failed` where what answers is not svc. The
   * caller reads or cancels the body.
   */
  request<K extends EndpointName>(name: K, ...call: Args<K>): Promise<Answer>;
  /** The answer's JSON; undefined for 204. */
  json<K extends EndpointName>(name: K, ...call: Args<K>): Promise<JsonOf<K>>;
  /** The answer's JSON objects, one a line, as they come. */
  events<K extends EndpointName>(name: K, ...call: Args<K>): AsyncGenerator<EventOf<K>>;
  /** An open WebSocket. The caller closes it. */
  socket(
    path: SocketPath,
    query: URLSearchParams | undefined,
    handlers: SocketHandlers,
  ): Promise<WebSocket>;
}

export { parseServer };

/** The system's own message, which Deno puts at the end of a chain of causes and colons. */
function reason(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const text = cause instanceof Error ? cause.message : String(cause);
  const last = text.split(": ").at(-1)!.replace(/ \(os error \d+\)$/, "");
  return last.charAt(0).toLowerCase() + last.slice(1);
}

/**
 * A client without a proxy for this machine's loopback, which no proxy can reach (Go's net/http does the same).
 */
function directClient(url: URL): Deno.HttpClient | undefined {
  if (localAddresses(url).length === 0) return undefined;
  const hostname = url.hostname.replace(/^\[|\]$/g, "");
  return Deno.createHttpClient({
    proxy: { transport: "tcp", hostname, port: Number(url.port || 80) },
  });
}

/** A body whose own failure is remembered: fetch would report that failure as a broken connection. */
function watch(body: ReadableStream<Uint8Array>) {
  let failure: unknown;
  const parts = async function* () {
    try {
      yield* body;
    } catch (error) {
      failure = error;
      throw error;
    }
  };
  return { stream: ReadableStream.from(parts()), failure: () => failure };
}

/** Attempts for a call that can be repeated, where the way to the server can be opened again. */
const ATTEMPTS = 4;
const PAUSE_MS = 250;

function placeOf(name: EndpointName, call: Call = {}): [method: string, path: string, call: Call] {
  return [name.slice(0, name.indexOf(" ")), endpointPath(name, call.params), call];
}

class HttpClient implements Client {
  readonly server: string;
  readonly resumes: boolean;
  readonly #base: string;
  readonly #options: ClientOptions;
  readonly #signal?: AbortSignal;
  /** The server is on this machine, and nothing stands between. */
  readonly #local: boolean;
  /** Absent: Deno's own, which follows the proxy variables. Lives as long as the process. */
  readonly #http?: Deno.HttpClient;
  /** A call was answered: later calls that break may be repeated. */
  #worked = false;
  /** The last failure for which the way had no explanation. */
  #unexplained?: SvcError;

  constructor(options: ClientOptions) {
    const url = parseServer(options.server);
    this.server = url.origin + url.pathname.replace(/\/+$/, "");
    this.#base = options.way?.base ?? this.server;
    this.resumes = options.way?.resumes ?? false;
    this.#options = options;
    this.#signal = options.signal;
    this.#local = !options.way?.http && localAddresses(url).length > 0;
    this.#http = options.way?.http ?? (options.proxied ? directClient(url) : undefined);
  }

  async #headers(): Promise<Record<string, string>> {
    const { token, credential } = this.#options;
    const bearer = credential ? await credential.token() : token;
    return bearer ? { authorization: `Bearer ${bearer}` } : {};
  }

  #url(path: string, query?: Call["query"]): string {
    const defined = query instanceof URLSearchParams
      ? query
      : Object.entries(query ?? {}).filter((pair): pair is [string, string] =>
        pair[1] !== undefined
      );
    const search = new URLSearchParams(defined).toString();
    return `${this.#base}${API_PREFIX}${path}${search ? `?${search}` : ""}`;
  }

  async #unreachable(cause: unknown): Promise<SvcError> {
    const explained = await this.#options.way?.explain();
    if (explained) return explained;
    const message = `Cannot reach ${this.server}: ${reason(cause)}`;
    return this.#unexplained = new SvcError("server_unreachable", message, { cause });
  }

  async #once(method: string, path: string, call: Call): Promise<Answer> {
    const headers: Record<string, string> = {
      ...await this.#headers(),
      accept: call.accept ?? "application/json",
      ...call.headers,
    };
    const contentType = call.json === undefined ? call.contentType : "application/json";
    if (contentType) headers["content-type"] = contentType;
    const body = call.body instanceof ReadableStream ? watch(call.body) : undefined;
    try {
      const url = this.#url(path, call.query);
      const sent = {
        method,
        headers,
        body: call.json === undefined
          ? body?.stream ?? call.body as string | undefined
          : JSON.stringify(call.json),
        signal: this.#signal,
      };
      if (this.#local) return await callLocally(new URL(url), sent);
      return await fetch(url, {
        ...sent,
        // A redirect is an error: a credential is sent only to the server that it was meant for.
        redirect: "manual",
        client: this.#http,
      });
    } catch (error) {
      if (this.#signal?.aborted || isAbort(error)) throw error;
      throw body?.failure() ?? await this.#unreachable(error);
    }
  }

  /** True where the way to the server was open, broke, and may be opened again. */
  #isBroken(error: unknown): boolean {
    if (!(error instanceof SvcError) || error.code !== "server_unreachable") return false;
    return this.#worked || error === this.#unexplained && this.#options.way?.reached?.() === true;
  }

  /** Repeats `act` where the method and the way to the server allow it. */
  async #mending<T>(method: string, act: () => Promise<T>): Promise<T> {
    for (let attempt = 1;; attempt++) {
      try {
        return await act();
      } catch (error) {
        const repeats = this.resumes && method === "GET" && attempt < ATTEMPTS;
        if (!repeats || !this.#isBroken(error)) throw error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** (attempt - 1)));
        this.#signal?.throwIfAborted();
      }
    }
  }

  #attempts(method: string, path: string, call: Call): Promise<Answer> {
    return this.#mending(method, async () => {
      const response = await this.#once(method, path, call);
      this.#worked = true;
      return response;
    });
  }

  request<K extends EndpointName>(name: K, ...[call]: Args<K>): Promise<Answer> {
    return this.#request(...placeOf(name, call));
  }

  async #request(method: string, path: string, call: Call): Promise<Answer> {
    let response = await this.#attempts(method, path, call);
    // A refused call is repeated once with a new credential, unless its body was a stream, which is used up.
    const again = response.status === 401 && !(call.body instanceof ReadableStream);
    if (again && await this.#options.credential?.renew()) {
      await response.body?.cancel();
      response = await this.#attempts(method, path, call);
    }
    if (!response.ok) throw await responseError(response, this.server);
    return response;
  }

  async json<K extends EndpointName>(name: K, ...[call]: Args<K>): Promise<JsonOf<K>> {
    const place = placeOf(name, call);
    let kind = "";
    const text = await this.#mending(place[0], async () => {
      const response = await this.#request(...place);
      if (response.status === 204) return undefined;
      kind = kindOf(response);
      try {
        return await response.text();
      } catch (cause) {
        if (this.#signal?.aborted) throw cause;
        throw await this.#unreachable(cause);
      }
    });
    if (text === undefined) return undefined as unknown as JsonOf<K>;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw noneOfOurs(this.server, kind, cause);
    }
    if (isAnswer(name, value)) return value as JsonOf<K>;
    throw noneOfOurs(this.server, `${kind} and other JSON`);
  }

  async *events<K extends EndpointName>(
    name: K,
    ...[call]: Args<K>
  ): AsyncGenerator<EventOf<K>> {
    const [method, path, sent] = placeOf(name, call);
    const response = await this.#request(method, path, { accept: EVENTS_TYPE, ...sent });
    if (!response.body) return;
    let known = false;
    try {
      for await (const line of readLines(response.body)) {
        if (line.trim() === "") continue;
        const value = JSON.parse(line);
        if (!isEvent(value)) throw noneOfOurs(this.server, `${kindOf(response)} and other JSON`);
        known = true;
        yield value as EventOf<K>;
      }
    } catch (cause) {
      if (this.#signal?.aborted || cause instanceof SvcError) throw cause;
      if (cause instanceof SyntaxError && !known) {
        throw noneOfOurs(this.server, kindOf(response), cause);
      }
      const why = cause instanceof SyntaxError ? "a line is not JSON" : reason(cause);
      throw new SvcError("upstream_failed", `Cannot read the events of ${this.server}: ${why}`, {
        cause,
      });
    }
  }

  async socket(
    path: SocketPath,
    query: URLSearchParams | undefined,
    handlers: SocketHandlers,
  ): Promise<WebSocket> {
    const { credential } = this.#options;
    const before = await credential?.token();
    try {
      return await this.#open(path, query, handlers);
    } catch (error) {
      if (this.#signal?.aborted) throw error;
      // The server has come back since, or changed its mind: `#refusal` was refused for being no upgrade.
      const ready = error instanceof SvcError && error.code === "argument_invalid";
      // The request in `#refusal` has replaced a credential that had expired.
      if (!ready && await credential?.token() === before) throw error;
      return await this.#open(path, query, handlers);
    }
  }

  async #open(
    path: string,
    query: URLSearchParams | undefined,
    handlers: SocketHandlers,
  ): Promise<WebSocket> {
    this.#signal?.throwIfAborted();
    const url = this.#url(path, query);
    const socket = new WebSocket(url.replace(/^http/, "ws"), {
      headers: { ...await this.#headers(), ...handlers.headers },
      client: this.#http,
    });
    socket.binaryType = "arraybuffer";
    const opened = Promise.withResolvers<void>();
    const abort = () => {
      socket.close();
      opened.reject(this.#signal!.reason);
    };
    this.#signal?.addEventListener("abort", abort, { once: true });
    socket.onopen = () => {
      socket.onclose = handlers.onClose;
      opened.resolve();
    };
    socket.onmessage = ({ data }) =>
      handlers.onMessage(typeof data === "string" ? data : new Uint8Array(data));
    socket.onerror = (event) => opened.reject((event as ErrorEvent).error ?? event);
    try {
      await opened.promise;
      return socket;
    } catch (error) {
      // The caller's abort goes before an error that came at the same moment.
      this.#signal?.throwIfAborted();
      const refusal = await this.#refusal(path, { query, headers: handlers.headers }, error);
      this.#signal?.throwIfAborted();
      throw refusal;
    } finally {
      this.#signal?.removeEventListener("abort", abort);
    }
  }

  /** WebSocket hides the answer to a refused upgrade; the same GET without an upgrade shows it. */
  async #refusal(path: string, call: Call, cause: unknown) {
    try {
      const response = await this.#request("GET", path, call);
      await response.body?.cancel();
    } catch (error) {
      if (error instanceof SvcError) return error;
    }
    return new SvcError(
      "upstream_failed",
      `Cannot open a WebSocket to ${this.server}: the upgrade was refused`,
      { cause, help: "check that no proxy stands between that removes Upgrade headers" },
    );
  }
}

export function createClient(options: ClientOptions): Client {
  return new HttpClient(options);
}
