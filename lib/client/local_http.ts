/**
 * HTTP/1.1 calls to a server of this machine. The first `fetch` of a process compiles Deno's own client, which
 * takes as long as half of a short command (docs/decisions/client-start.md). No proxy leads to this machine's
 * loopback, TLS is not needed there, and a connection costs nothing: each call has one of its own.
 */
import { concat } from "../base/collect.ts";
import { type Framing, parseResponseHead, renderHead, responseFraming } from "../ingress/head.ts";
import type { Fields } from "../ingress/fields.ts";
import { Body, Inlet } from "../ingress/inlet.ts";
import { connDuplex, type Duplex } from "../wire/duplex.ts";

/** What calls need of fetch's answers, which are such answers too. */
export type Answer =
  & Pick<Response, "body" | "ok" | "status" | "statusText" | "text">
  & { headers: Pick<Headers, "get" | "has"> };

export interface LocalCall {
  method: string;
  headers: Readonly<Record<string, string>>;
  body?: ReadableStream<Uint8Array> | string;
  /** Ends the call, its answer's body too, with its reason. */
  signal?: AbortSignal;
}

/** Most bytes of an answer's head, and most heads such as "103 Early Hints" before the one that counts. */
const HEAD = 64 * 1024;
const INTERIM = 8;

const encoder = new TextEncoder();

/** The addresses of a URL that leads to this machine without TLS, in the order to try; none for other URLs. */
export function localAddresses({ protocol, hostname }: URL): string[] {
  if (protocol !== "http:") return [];
  if (hostname === "localhost") return ["127.0.0.1", "::1"];
  if (/^127(\.\d{1,3}){3}$/.test(hostname)) return [hostname];
  return hostname === "[::1]" ? ["::1"] : [];
}

async function dial(url: URL, signal?: AbortSignal): Promise<Deno.TcpConn> {
  const [first, ...others] = localAddresses(url);
  const port = Number(url.port || 80);
  const attempt = (hostname: string) => Deno.connect({ hostname, port, signal });
  try {
    return await attempt(first);
  } catch (error) {
    for (const address of others) {
      const conn = await attempt(address).catch(() => undefined);
      if (conn) return conn;
    }
    throw signal?.aborted ? signal.reason : error;
  }
}

/**
 * Resolves with the answer's head, also where it comes before the end of the request's body. A redirect is an
 * answer like others. Throws the signal's reason, or what broke the connection or the request's body. The
 * caller reads the answer's body or cancels it.
 */
export async function callLocally(url: URL, call: LocalCall): Promise<Answer> {
  const { signal } = call;
  const conn = await dial(url, signal);
  conn.setNoDelay(true);
  const stream = connDuplex(conn);
  const source = call.body instanceof ReadableStream ? call.body.getReader() : undefined;
  const end = () => {
    signal?.removeEventListener("abort", end);
    stream.reset();
    source?.cancel().catch(() => {/* who reads it was told */});
  };
  signal?.addEventListener("abort", end);
  let failure: unknown;
  try {
    signal?.throwIfAborted();
    const inlet = new Inlet(stream);
    const sending = send(stream, url, call, source);
    // A server that refuses a body answers, and then breaks the connection: the answer counts.
    sending.catch((error) => {
      failure ??= error;
    });
    const head = await answerHead(inlet);
    const framing = responseFraming(head, call.method);
    return new LocalAnswer(head, new Body(inlet, framing), framing, { end, signal });
  } catch (error) {
    end();
    throw signal?.aborted ? signal.reason : failure ?? error;
  }
}

/** Characters that could end a header early and begin a forged one, and those that are no bytes. */
const UNSAFE = /[^\t -~\x80-\xff]/;

async function send(
  stream: Duplex,
  url: URL,
  { method, headers, body }: LocalCall,
  source: ReadableStreamDefaultReader<Uint8Array> | undefined,
): Promise<void> {
  const bytes = typeof body === "string" ? encoder.encode(body) : new Uint8Array();
  const fields: Fields = [
    ["host", url.host],
    ["connection", "close"],
    ...Object.entries(headers),
  ];
  if (source) fields.push(["transfer-encoding", "chunked"]);
  else if (method !== "GET") fields.push(["content-length", `${bytes.length}`]);
  // What a server that takes no more has answered is still to be read.
  const write = (...parts: Uint8Array[]) =>
    stream.write(concat(parts)).then(() => true, () => false);
  try {
    const unsafe = fields.find(([, value]) => UNSAFE.test(value));
    if (unsafe) throw new TypeError(`the header ${unsafe[0]} has characters that none may have`);
    const head = renderHead(`${method} ${url.pathname}${url.search} HTTP/1.1`, fields);
    let taken = await write(head, bytes);
    while (source && taken) {
      const { done, value = new Uint8Array() } = await source.read();
      if (done) return void await write(encoder.encode("0\r\n\r\n"));
      if (value.length === 0) continue;
      const size = encoder.encode(`${value.length.toString(16)}\r\n`);
      taken = await write(size, value, encoder.encode("\r\n"));
    }
  } catch (error) {
    // Without the rest of its request the server would not answer.
    stream.reset();
    throw error;
  }
}

async function answerHead(inlet: Inlet) {
  for (let n = 0; n <= INTERIM; n++) {
    const bytes = await inlet.head(HEAD);
    if (!bytes) throw new Error("the connection was closed without an answer");
    const head = parseResponseHead(bytes);
    if (head.status === 101) throw new Error("it switched to another protocol");
    if (head.status >= 200) return head;
  }
  throw new Error("it answers without an end");
}

class LocalAnswer implements Answer {
  readonly status: number;
  readonly statusText: string;
  readonly headers: Answer["headers"];
  readonly #read: () => Promise<Uint8Array | undefined>;
  readonly #end: () => void;
  #body: ReadableStream<Uint8Array<ArrayBuffer>> | null | undefined;

  constructor(
    head: ReturnType<typeof parseResponseHead>,
    body: Body,
    framing: Framing,
    { end, signal }: { end: () => void; signal?: AbortSignal },
  ) {
    this.status = head.status;
    this.statusText = head.reason;
    const values = (name: string) =>
      head.fields.filter(([own]) => own.toLowerCase() === name.toLowerCase()).map(([, it]) => it);
    this.headers = {
      has: (name) => values(name).length > 0,
      get: (name) => values(name).length > 0 ? values(name).join(", ") : null,
    };
    if (framing.kind === "none") this.#body = null;
    if (body.done) end();
    this.#end = end;
    this.#read = async () => {
      try {
        while (!body.done) {
          await body.fill();
          const bytes = body.take();
          if (body.done) end();
          if (bytes.length > 0) return bytes;
        }
        return undefined;
      } catch (error) {
        end();
        throw signal?.aborted ? signal.reason : error;
      }
    };
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  /** Made where it is asked for: streams are another part of Deno that is compiled at its first use. */
  get body(): ReadableStream<Uint8Array<ArrayBuffer>> | null {
    if (this.#body === undefined) {
      this.#body = new ReadableStream({
        pull: async (controller) => {
          const bytes = await this.#read();
          if (bytes) controller.enqueue(bytes as Uint8Array<ArrayBuffer>);
          else controller.close();
        },
        cancel: () => this.#end(),
      }, { highWaterMark: 0 });
    }
    return this.#body;
  }

  async text(): Promise<string> {
    const parts: Uint8Array[] = [];
    for (let bytes; (bytes = await this.#read());) parts.push(bytes);
    return new TextDecoder().decode(concat(parts));
  }
}
