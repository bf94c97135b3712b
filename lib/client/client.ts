/** The management API's client: JSON calls, event streams and WebSockets, with the server's own errors. */
import { CATALOGUE, type ErrorCode, isAbort, SvcError } from "../base/errors.ts";
import { fromProblem, type Problem, PROBLEM_TYPE } from "../api/problem.ts";
import { readLines } from "./lines.ts";
import { isAnswer, isEvent, kindOf, noneOfOurs } from "./ours.ts";
import { parseServer } from "./server_url.ts";

export const API_PREFIX = "/.svc/v1";
export const EVENTS_TYPE = "application/x-ndjson";

export interface ClientOptions {
  /** "http://host:port", with a path where the server stands behind one; without a scheme it is http. */
  server: string;
  /** Sent as `Authorization: Bearer`. */
  token?: string;
  /** In the place of `token`: asked before each call; `renew` is told that the last answer was refused. */
  credential?: { token(): Promise<string | undefined>; renew(): Promise<boolean> };
  /** How the server is reached, where it is not by Deno's own client at `server`. */
  way?: {
    base: string;
    http?: Deno.HttpClient;
    explain(): SvcError | undefined | Promise<SvcError | undefined>;
    resumes: boolean;
    /** A connection got through: what breaks from then on may be mended. Absent: it did not. */
    reached?(): boolean;
  };
  /** Ends every call of this client. */
  signal?: AbortSignal;
  /** The environment names a proxy: it is passed by where the server is this machine itself. */
  proxied?: boolean;
}

export interface Call {
  query?: URLSearchParams | Record<string, string | undefined>;
  body?: ReadableStream<Uint8Array> | string;
  /** Of the body. */
  contentType?: string;
  /** Media types asked for; default JSON. */
  accept?: string;
  /** Others, by lower-case name. */
  headers?: Record<string, string>;
}

/** Given before the socket opens: the server may speak, and hang up, at once. */
export interface SocketHandlers {
  onMessage: (data: Uint8Array<ArrayBuffer>) => void;
  /** A message of text; absent: it comes as an empty one of bytes. */
  onText?: (text: string) => void;
  /** Only of a socket that was open. */
  onClose: (event: { code: number; reason: string }) => void;
}

export type Method = "GET" | "POST" | "PUT" | "DELETE";

export interface Client {
  /** Without a trailing slash. */
  readonly server: string;
  /** A connection that breaks may be opened again: what can go on after that, should. */
  readonly resumes: boolean;
  /**
   * One call to a path under `/.svc/v1`. Resolves for 2xx; throws what the server reported,
   * `server_unreachable` where there is none, or `upstream_failed` where what answers is not svc. The
   * caller reads or cancels the body.
   */
  request(method: Method, path: string, call?: Call): Promise<Response>;
  /** The answer's JSON; undefined for 204. */
  json<T>(method: Method, path: string, call?: Call): Promise<T>;
  /** The answer's JSON objects, one a line, as they come. */
  events<T>(method: Method, path: string, call?: Call): AsyncGenerator<T>;
  /** An open WebSocket. The caller closes it. */
  socket(
    path: string,
    query: URLSearchParams | undefined,
    handlers: SocketHandlers,
  ): Promise<WebSocket>;
}

export { parseServer };

/** The system's own last words: Deno puts them at the end of a chain of causes and colons. */
function reason(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const text = cause instanceof Error ? cause.message : String(cause);
  const last = text.split(": ").at(-1)!.replace(/ \(os error \d+\)$/, "");
  return last.charAt(0).toLowerCase() + last.slice(1);
}

/** What a refused call says: the server's problem, or that no svc answered. */
export async function responseError(response: Response, server: string): Promise<SvcError> {
  const type = response.headers.get("content-type") ?? "";
  const text = await response.text().catch(() => "");
  if (type.startsWith(PROBLEM_TYPE) || type.startsWith("application/json")) {
    const problem = parseProblem(text);
    if (problem) return problem;
  }
  return noneOfOurs(server, kindOf(response));
}

/** A code that only a newer server has is shown as what it is: a failure over there. */
export function problemError(problem: Problem): SvcError {
  if (Object.hasOwn(CATALOGUE, problem.code)) return fromProblem(problem);
  return fromProblem({ ...problem, code: "upstream_failed" satisfies ErrorCode });
}

function parseProblem(text: string): SvcError | undefined {
  try {
    const problem = JSON.parse(text) as Partial<Problem> | null;
    if (typeof problem?.code !== "string" || typeof problem.detail !== "string") return undefined;
    return problemError({ help: "", title: "", status: 500, ...problem } as Problem);
  } catch {
    return undefined;
  }
}

/** No proxy can reach this machine's loopback: as elsewhere (Go's net/http), none is asked to. */
function directClient(url: URL): Deno.HttpClient | undefined {
  const { protocol, hostname, port } = url;
  if (protocol !== "http:" || !/^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname)) return undefined;
  const host = hostname.replace(/^\[|\]$/g, "");
  return Deno.createHttpClient({
    proxy: { transport: "tcp", hostname: host, port: Number(port || 80) },
  });
}

/** A body whose own failure is kept: fetch would tell of it as of a broken connection. */
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

/** Attempts of a call that may be repeated, where the way to the server can be opened again. */
const ATTEMPTS = 4;
const PAUSE_MS = 250;

class HttpClient implements Client {
  readonly server: string;
  readonly resumes: boolean;
  readonly #base: string;
  readonly #options: ClientOptions;
  readonly #signal?: AbortSignal;
  /** Absent: Deno's own, which follows the proxy variables. Lives as long as the process. */
  readonly #http?: Deno.HttpClient;
  /** A call was answered: what breaks from now on may be mended. */
  #worked = false;
  /** The last failure that nobody could explain. */
  #unexplained?: SvcError;

  constructor(options: ClientOptions) {
    const url = parseServer(options.server);
    this.server = url.origin + url.pathname.replace(/\/+$/, "");
    this.#base = options.way?.base ?? this.server;
    this.resumes = options.way?.resumes ?? false;
    this.#options = options;
    this.#signal = options.signal;
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

  async #once(method: Method, path: string, call: Call): Promise<Response> {
    const headers: Record<string, string> = {
      ...await this.#headers(),
      accept: call.accept ?? "application/json",
      ...call.headers,
    };
    if (call.contentType) headers["content-type"] = call.contentType;
    const body = call.body instanceof ReadableStream ? watch(call.body) : undefined;
    try {
      return await fetch(this.#url(path, call.query), {
        method,
        headers,
        body: (body?.stream ?? call.body) as BodyInit | undefined,
        signal: this.#signal,
        // One is told: a credential goes where it was sent to, or nowhere.
        redirect: "manual",
        client: this.#http,
      });
    } catch (error) {
      if (this.#signal?.aborted || isAbort(error)) throw error;
      throw body?.failure() ?? await this.#unreachable(error);
    }
  }

  /** A way that was open broke, and may be opened again. */
  #isBroken(error: unknown): boolean {
    if (!(error instanceof SvcError) || error.code !== "server_unreachable") return false;
    return this.#worked || error === this.#unexplained && this.#options.way?.reached?.() === true;
  }

  /** As often as the method and the way to the server allow. */
  async #mending<T>(method: Method, act: () => Promise<T>): Promise<T> {
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

  #attempts(method: Method, path: string, call: Call): Promise<Response> {
    return this.#mending(method, async () => {
      const response = await this.#once(method, path, call);
      this.#worked = true;
      return response;
    });
  }

  async request(method: Method, path: string, call: Call = {}): Promise<Response> {
    let response = await this.#attempts(method, path, call);
    // A stream is spent; for everything else a credential that has ended is replaced, once.
    const again = response.status === 401 && !(call.body instanceof ReadableStream);
    if (again && await this.#options.credential?.renew()) {
      await response.body?.cancel();
      response = await this.#attempts(method, path, call);
    }
    if (!response.ok) throw await responseError(response, this.server);
    return response;
  }

  async json<T>(method: Method, path: string, call?: Call): Promise<T> {
    let kind = "";
    const text = await this.#mending(method, async () => {
      const response = await this.request(method, path, call);
      if (response.status === 204) return undefined;
      kind = kindOf(response);
      try {
        return await response.text();
      } catch (cause) {
        if (this.#signal?.aborted) throw cause;
        throw await this.#unreachable(cause);
      }
    });
    if (text === undefined) return undefined as T;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw noneOfOurs(this.server, kind, cause);
    }
    if (isAnswer(method, path, value)) return value as T;
    throw noneOfOurs(this.server, `${kind} and other JSON`);
  }

  async *events<T>(method: Method, path: string, call: Call = {}): AsyncGenerator<T> {
    const response = await this.request(method, path, { accept: EVENTS_TYPE, ...call });
    if (!response.body) return;
    let known = false;
    try {
      for await (const line of readLines(response.body)) {
        if (line.trim() === "") continue;
        const value = JSON.parse(line);
        if (!isEvent(value)) throw noneOfOurs(this.server, `${kindOf(response)} and other JSON`);
        known = true;
        yield value as T;
      }
    } catch (cause) {
      if (this.#signal?.aborted || cause instanceof SvcError) throw cause;
      if (cause instanceof SyntaxError && !known) {
        throw noneOfOurs(this.server, kindOf(response), cause);
      }
      const why = cause instanceof SyntaxError ? "a line is no JSON" : reason(cause);
      throw new SvcError("upstream_failed", `Cannot read the events of ${this.server}: ${why}`, {
        cause,
      });
    }
  }

  async socket(
    path: string,
    query: URLSearchParams | undefined,
    handlers: SocketHandlers,
  ): Promise<WebSocket> {
    const { credential } = this.#options;
    const before = await credential?.token();
    try {
      return await this.#open(path, query, handlers);
    } catch (error) {
      // Asking why it was refused has replaced a credential that had ended.
      if (this.#signal?.aborted || await credential?.token() === before) throw error;
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
      headers: await this.#headers(),
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
    socket.onmessage = ({ data }) => {
      if (typeof data === "string" && handlers.onText) handlers.onText(data);
      else handlers.onMessage(new Uint8Array(data));
    };
    socket.onerror = (event) => opened.reject((event as ErrorEvent).error ?? event);
    try {
      await opened.promise;
      return socket;
    } catch (error) {
      // Both ends may fail at once: that the caller gave up is what counts.
      this.#signal?.throwIfAborted();
      const refusal = await this.#refusal(path, query, error);
      this.#signal?.throwIfAborted();
      throw refusal;
    } finally {
      this.#signal?.removeEventListener("abort", abort);
    }
  }

  /** A refused upgrade hides the answer from WebSocket; the same GET, not upgraded, tells. */
  async #refusal(path: string, query: URLSearchParams | undefined, cause: unknown) {
    try {
      const response = await this.request("GET", path, { query });
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
