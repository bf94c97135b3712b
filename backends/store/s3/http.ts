/**
 * Carries the SDK's requests over `fetch`, with limits that end every wait: for the connection and the
 * answer's head, and for each next piece of its body.
 */

export interface S3Timeouts {
  /** For an answer to a request that carries and moves little, connecting included, in milliseconds. */
  answerMs: number;
  /** For an answer to what moves data inside the service: copying, putting parts together. */
  workMs: number;
  /** Between two pieces of an answer's body. */
  idleMs: number;
}

export const TIMEOUTS: S3Timeouts = { answerMs: 20_000, workMs: 180_000, idleMs: 30_000 };

/** Slowest upload that is waited for, bytes per millisecond. */
const SLOWEST = 256;

/** What the SDK hands over; the part of its type that matters here. */
export interface SdkRequest {
  protocol: string;
  hostname: string;
  port?: number;
  path: string;
  method: string;
  headers: Record<string, string>;
  query?: Record<string, string | string[] | null>;
  body?: unknown;
}

export interface SdkResponse {
  statusCode: number;
  reason?: string;
  headers: Record<string, string>;
  body?: ReadableStream<Uint8Array>;
}

/** Named so that the SDK's retry policy takes it for transient. */
export class StalledError extends Error {
  override readonly name = "TimeoutError";
}

/** The connection could not be made, or broke. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
  /** The SDK tries again where this is set. */
  readonly $retryable = {};
}

/** What `fetch` met, in the innermost words: its own are "fetch failed". */
function reason(error: unknown): string {
  let at = error as Error;
  while (at.cause instanceof Error) at = at.cause;
  return at.message;
}

/** The SDK's own escaping: signatures are made over it. */
const escape = (text: string) =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );

function urlOf(request: SdkRequest): string {
  const query = Object.entries(request.query ?? {}).flatMap(([name, value]) =>
    [value ?? ""].flat().map((one) => `${escape(name)}=${escape(one)}`)
  ).join("&");
  const port = request.port ? `:${request.port}` : "";
  return `${request.protocol}//${request.hostname}${port}${request.path}${query && `?${query}`}`;
}

/** Not for `fetch`, which sets them itself; `expect` would wait for what it cannot hear. */
const DROPPED = new Set(["host", "content-length", "expect", "connection"]);

function bodyOf(request: SdkRequest): BodyInit | undefined {
  const { body } = request;
  if (body === undefined || body === null || body === "") return undefined;
  if (typeof body === "string") return body;
  if (body instanceof Uint8Array) return body as Uint8Array<ArrayBuffer>;
  throw new TypeError("Cannot send the request: its body is neither text nor bytes");
}

function answerLimit(request: SdkRequest, timeouts: S3Timeouts): number {
  const query = request.query ?? {};
  const copies = Object.keys(request.headers).some((name) =>
    name.toLowerCase() === "x-amz-copy-source"
  );
  if (copies || request.method === "POST" && "uploadId" in query) return timeouts.workMs;
  const size = request.body instanceof Uint8Array ? request.body.length : 0;
  return timeouts.answerMs + size / SLOWEST;
}

/** Ends with {@linkcode StalledError} where nothing comes for `idleMs`. Exported for its test. */
export function limitIdle(
  body: ReadableStream<Uint8Array>,
  idleMs: number,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { promise, reject } = Promise.withResolvers<never>();
      const timer = setTimeout(() => {
        reject(new StalledError(`nothing came for ${idleMs} ms`));
      }, idleMs);
      try {
        const { value, done } = await Promise.race([reader.read(), promise]);
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        reader.cancel(error).catch(() => {/* its end is known */});
        throw error instanceof StalledError
          ? error
          : new ConnectionError(reason(error), { cause: error });
      } finally {
        clearTimeout(timer);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}

/** A request handler of the SDK. `close` ends its idle connections. */
export class FetchHandler {
  readonly metadata = { handlerProtocol: "http/1.1" };
  #client: Deno.HttpClient = Deno.createHttpClient({ poolMaxIdlePerHost: 32 });

  constructor(private readonly timeouts: S3Timeouts) {}

  async handle(
    request: SdkRequest,
    { abortSignal }: { abortSignal?: AbortSignal } = {},
  ): Promise<{ response: SdkResponse }> {
    abortSignal?.throwIfAborted();
    const headers = new Headers({ "accept-encoding": "identity" });
    for (const [name, value] of Object.entries(request.headers)) {
      if (!DROPPED.has(name.toLowerCase())) headers.set(name, value);
    }
    const limit = answerLimit(request, this.timeouts);
    const stalled = new AbortController();
    const timer = setTimeout(() => {
      stalled.abort(new StalledError(`no answer for ${Math.round(limit)} ms`));
    }, limit);
    const stop = () => stalled.abort(abortSignal?.reason);
    abortSignal?.addEventListener("abort", stop, { once: true });
    try {
      const answer = await fetch(urlOf(request), {
        method: request.method,
        headers,
        body: bodyOf(request),
        redirect: "manual",
        client: this.#client,
        signal: stalled.signal,
      });
      return {
        response: {
          statusCode: answer.status,
          reason: answer.statusText,
          headers: Object.fromEntries(answer.headers),
          ...(answer.body && { body: limitIdle(answer.body, this.timeouts.idleMs) }),
        },
      };
    } catch (error) {
      if (stalled.signal.aborted) throw stalled.signal.reason;
      throw new ConnectionError(reason(error), { cause: error });
    } finally {
      clearTimeout(timer);
      abortSignal?.removeEventListener("abort", stop);
    }
  }

  /** The SDK asks for these two. */
  updateHttpClientConfig(): void {}
  httpHandlerConfigs(): Record<string, never> {
    return {};
  }

  destroy(): void {
    this.#client.close();
  }
}
