/** Carries the SDK's requests over `fetch`. */
import { Readable } from "node:stream";
import type {
  HttpHeaders,
  HttpOperationResponse,
  IHttpClient,
  WebResource,
} from "@azure/storage-blob";
import { BoundedHttp, type Timeouts } from "../shared/http.ts";

/** Header fields that `fetch` sets itself. */
const DROPPED = new Set(["host", "content-length", "connection", "accept-encoding"]);

function bodyOf({ body }: WebResource): string | Uint8Array | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body === "string" || body instanceof Uint8Array) return body;
  throw new TypeError("Cannot send the request: its body is neither text nor bytes");
}

/** Requests that copy data or put blocks together: the service works before it answers. */
function works({ url, method, headers }: WebResource): boolean {
  return headers.contains("x-ms-copy-source") ||
    method === "PUT" && new URL(url).searchParams.get("comp") === "blocklist";
}

export class FetchTransport implements IHttpClient {
  #http: BoundedHttp;
  #bodies = new WeakMap<object, ReadableStream<Uint8Array>>();

  constructor(timeouts: Timeouts) {
    this.#http = new BoundedHttp(timeouts);
  }

  async sendRequest(request: WebResource): Promise<HttpOperationResponse> {
    const headers = new Headers();
    for (const { name, value } of request.headers.headersArray()) {
      if (!DROPPED.has(name.toLowerCase())) headers.set(name, value);
    }
    const answer = await this.#http.send({
      url: request.url,
      method: request.method,
      headers,
      body: bodyOf(request),
      works: works(request),
      signal: request.abortSignal as AbortSignal | undefined,
    });
    const { status } = answer;
    const streamed = request.streamResponseStatusCodes?.has(status) ||
      request.streamResponseStatusCodes?.has(Infinity);
    const got = new Map([...answer.headers]);
    return {
      request,
      status,
      // The SDK reads only this member.
      headers: { toJson: () => Object.fromEntries(got) } as unknown as HttpHeaders,
      ...(streamed ? { readableStreamBody: this.#keep(request, answer.body) } : {
        bodyAsText: await new Response(answer.body as BodyInit | undefined).text(),
      }),
    };
  }

  /** The SDK's stream cannot report why it broke. So the SDK gets an empty stream, and `take` gives the body. */
  #keep(request: WebResource, body: ReadableStream<Uint8Array> | undefined): Readable {
    if (request.abortSignal) {
      this.#bodies.set(request.abortSignal, body ?? ReadableStream.from([]));
    }
    return new Readable({ read() {} });
  }

  /** The body of the download that was made with `signal`, which no other request uses. */
  take(signal: AbortSignal): ReadableStream<Uint8Array> | undefined {
    return this.#bodies.get(signal);
  }

  close(): void {
    this.#http.close();
  }
}
