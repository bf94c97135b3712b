/** Carries the SDK's requests over `fetch`. */
import { BoundedHttp, type Timeouts } from "../shared/http.ts";

/** The part of the SDK's request that is used here. */
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

/** Escapes like the SDK, since the signature covers the escaped text. */
const escape = (text: string) =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );

export function urlOf(request: Omit<SdkRequest, "method" | "headers">): string {
  const query = Object.entries(request.query ?? {}).flatMap(([name, value]) =>
    [value ?? ""].flat().map((one) => `${escape(name)}=${escape(one)}`)
  ).join("&");
  const port = request.port ? `:${request.port}` : "";
  return `${request.protocol}//${request.hostname}${port}${request.path}${query && `?${query}`}`;
}

/** Fields that `fetch` sets itself; `expect` would wait for an interim answer that `fetch` does not show. */
const DROPPED = new Set(["host", "content-length", "expect", "connection"]);

function bodyOf(request: SdkRequest): string | Uint8Array | undefined {
  const { body } = request;
  if (body === undefined || body === null || body === "") return undefined;
  if (typeof body === "string" || body instanceof Uint8Array) return body;
  throw new TypeError("Cannot send the request: its body is neither text nor bytes");
}

/** Requests that copy data or put parts together: the service works before it answers. */
function works(request: SdkRequest): boolean {
  const copies = Object.keys(request.headers).some((name) =>
    name.toLowerCase() === "x-amz-copy-source"
  );
  return copies || request.method === "POST" && "uploadId" in (request.query ?? {});
}

/** A request handler of the SDK. `destroy` ends its idle connections. */
export class FetchHandler {
  readonly metadata = { handlerProtocol: "http/1.1" };
  #http: BoundedHttp;

  constructor(timeouts: Timeouts) {
    this.#http = new BoundedHttp(timeouts);
  }

  async handle(
    request: SdkRequest,
    { abortSignal }: { abortSignal?: AbortSignal } = {},
  ): Promise<{ response: SdkResponse }> {
    const headers = new Headers();
    for (const [name, value] of Object.entries(request.headers)) {
      if (!DROPPED.has(name.toLowerCase())) headers.set(name, value);
    }
    const answer = await this.#http.send({
      url: urlOf(request),
      method: request.method,
      headers,
      body: bodyOf(request),
      works: works(request),
      signal: abortSignal,
    });
    return {
      response: {
        statusCode: answer.status,
        reason: answer.reason,
        headers: Object.fromEntries(answer.headers),
        ...(answer.body && { body: answer.body }),
      },
    };
  }

  /** The SDK asks for these two. */
  updateHttpClientConfig(): void {}
  httpHandlerConfigs(): Record<string, never> {
    return {};
  }

  destroy(): void {
    this.#http.close();
  }
}
