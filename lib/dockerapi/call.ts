/** A request of node's server as a {@linkcode Call}, and the answer to it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import { asSvcError, isAbort, SvcError } from "../base/errors.ts";
import { waitFor } from "../base/wait_for.ts";
import type { Duplex } from "../wire/duplex.ts";
import { invalid } from "./errors.ts";
import { socketDuplex } from "../wire/socket_duplex.ts";
import type { Bodies } from "./bodies.ts";
import type { Answer, Call, Taking } from "./request.ts";
import type { Found } from "./router.ts";
import { serverHeaders } from "./server_headers.ts";

const RAW = "application/vnd.docker.raw-stream";
const MAX_JSON = 16 << 20;
/** Bytes of a refused body, and milliseconds, for which a client is listened to so that it reads the refusal. */
const MAX_DRAIN = 256 << 20;
const DRAIN_MS = 15_000;

export const messageOf = (error: unknown): { status: number; message: string } => {
  const known = asSvcError(error);
  const { help, status, message } = known;
  // Docker's clients show one line. Where a message is docker's own, the help would be none.
  const own = known.code === "not_found" || known.code === "argument_invalid";
  return { status, message: own || help === "" ? message : `${message}; ${help}` };
};

/** Where the answer goes: node's response, or the bare connection of a request that asked for an upgrade. */
export interface Outlet {
  response?: ServerResponse;
  socket: Socket;
  /** Bytes that came behind the head of a request with an upgrade. */
  head?: Buffer;
}

/** Path and query of the request's target, which may name a host. Nothing is resolved: "//" would be a host's name. */
export function targetOf({ url = "/" }: Pick<IncomingMessage, "url">): [string, string] {
  const [path, ...query] = url.replace(/^https?:\/\/[^/?]*/, "").split("?");
  return [path, query.join("?")];
}

export class NodeCall implements Call {
  readonly #message: IncomingMessage;
  readonly #outlet: Outlet;
  readonly #gone = new AbortController();
  readonly signal: AbortSignal;
  readonly query: URLSearchParams;
  readonly params: Readonly<Record<string, string>>;
  readonly path: string;
  readonly version: string;
  #read = false;
  #taken = false;

  constructor(message: IncomingMessage, outlet: Outlet, found: Found, ending: AbortSignal) {
    this.#message = message;
    this.#outlet = outlet;
    this.query = new URLSearchParams(targetOf(message)[1]);
    ({ params: this.params, path: this.path, version: this.version } = found);
    this.signal = AbortSignal.any([this.#gone.signal, ending]);
    // A connection may carry many requests.
    (outlet.response ?? outlet.socket).once(
      "close",
      () => this.#gone.abort(new DOMException("the client has gone", "AbortError")),
    );
  }

  get method(): string {
    return this.#message.method ?? "GET";
  }

  get upgrade(): string | undefined {
    return this.#outlet.response ? undefined : this.header("upgrade") ?? "tcp";
  }

  get isTaken(): boolean {
    return this.#taken;
  }

  header(name: string): string | undefined {
    const value = this.#message.headers[name];
    return Array.isArray(value) ? value[0] : value;
  }

  headers(name: string): string[] {
    const { rawHeaders } = this.#message;
    return rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1].toLowerCase() === name);
  }

  flag(name: string, otherwise = false): boolean {
    const value = this.query.get(name);
    if (value === null || value === "") return otherwise;
    return !["0", "false", "no", "none", "f"].includes(value.toLowerCase());
  }

  filters(): ReadonlyMap<string, readonly string[]> {
    const text = this.query.get("filters");
    if (!text) return new Map();
    const malformed = () => invalid(`invalid filter: ${text.slice(0, 200)} is no map of lists`);
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw malformed();
    }
    if (typeof value !== "object" || Array.isArray(value)) throw malformed();
    return new Map(
      Object.entries(value ?? {}).map(([name, values]) => {
        if (typeof values !== "object" || values === null) throw malformed();
        // Older clients send {"label": ["a"]}, newer ones {"label": {"a": true}}.
        const list: unknown[] = Array.isArray(values) ? values : Object.keys(values);
        if (!list.every((one) => typeof one === "string")) throw malformed();
        return [name, list];
      }),
    );
  }

  async *body(): AsyncIterable<Uint8Array> {
    this.#read = true;
    const message = this.#message;
    if (!this.#outlet.response && !message.complete) {
      return yield* bodyOnSocket(message, this.#outlet.socket, this.signal);
    }
    for await (const chunk of message) yield chunk as Uint8Array;
  }

  async json<N extends keyof Bodies>(form: N): Promise<Bodies[N]> {
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of this.body()) {
      size += part.length;
      if (size > MAX_JSON) {
        this.#read = false;
        throw new SvcError("too_large", `Cannot read the request: it has over ${MAX_JSON} bytes`);
      }
      parts.push(part);
    }
    const text = await new Blob(parts as BlobPart[]).text();
    let value: unknown;
    try {
      value = text.trim() === "" ? {} : JSON.parse(text);
    } catch {
      throw invalid("invalid JSON in the request's body");
    }
    const { BODIES, faultOf } = await import("./bodies.ts");
    const { success, data, error } = BODIES[form].safeParse(value ?? {});
    if (!success) throw invalid(`invalid JSON: ${faultOf(error)}`);
    return data as Bodies[N];
  }

  take(taking?: Taking): Promise<Duplex> {
    const { response } = this.#outlet;
    if (!response) return Promise.resolve(socketDuplex(this.#upgraded(taking)));
    this.#taken = true;
    this.#outlet.socket.setTimeout(0);
    response.writeHead(200, { "content-type": taking?.type ?? RAW, ...serverHeaders() });
    response.flushHeaders();
    return Promise.resolve(exchangeDuplex(this.#message, response));
  }

  takeSocket(): Socket {
    if (!this.#outlet.response) return this.#upgraded();
    throw invalid(`Cannot ${this.path}: the request has no upgrade`);
  }

  #upgraded(taking?: Taking): Socket {
    this.#taken = true;
    const { socket, head } = this.#outlet;
    const protocol = this.upgrade!;
    socket.setTimeout(0);
    const lines = [
      "HTTP/1.1 101 UPGRADED",
      ...(protocol === "tcp" ? [`Content-Type: ${taking?.type ?? RAW}`] : []),
      "Connection: Upgrade",
      `Upgrade: ${protocol}`,
    ];
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
    if (head?.length) socket.unshift(head);
    return socket;
  }

  async answer(answer: Answer): Promise<void> {
    const { response } = this.#outlet;
    if (response) await sendResponse(response, this.method, answer);
    else await sendBare(this.#outlet.socket, answer);
    await this.#drain();
  }

  /** A client that still sends would not read the answer if the connection was closed. */
  async #drain(): Promise<void> {
    const message = this.#message;
    if (this.#read || message.complete || message.destroyed) return;
    let size = 0;
    const timer = setTimeout(() => message.socket.destroy(), DRAIN_MS);
    try {
      for await (const chunk of message) {
        if ((size += (chunk as Uint8Array).length) > MAX_DRAIN) break;
      }
    } catch {
      // It has gone.
    } finally {
      clearTimeout(timer);
      if (size > MAX_DRAIN) message.socket.destroy();
    }
  }

  /** Tells a failure to the client, as far as it can still be told. */
  async fail(error: unknown): Promise<void> {
    const { response, socket } = this.#outlet;
    if (this.#taken || response?.headersSent) return void socket.destroy();
    if (isAbort(error) && socket.destroyed) return;
    const { status, message } = messageOf(error);
    await this.answer({ status, json: { message } });
  }
}

/**
 * The body of a request with an upgrade. node's parser ends there: it has what came together with the head, and what
 * comes later is on the socket.
 */
async function* bodyOnSocket(
  message: IncomingMessage,
  socket: Socket,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const first = message.read() as Uint8Array | null;
  let left = Number(message.headers["content-length"]) - (first?.length ?? 0);
  if (first) yield first;
  while (left !== 0) {
    const chunk = socket.read() as Buffer | null;
    if (chunk) {
      const own = chunk.subarray(0, left);
      if (own.length < chunk.length) socket.unshift(chunk.subarray(left));
      left -= own.length;
      yield own;
      continue;
    }
    // Without a length nobody can tell the body from what follows it.
    if (socket.readableEnded || Number.isNaN(left)) throw invalid("the request's body has no end");
    const { promise, resolve } = Promise.withResolvers<void>();
    socket.once("readable", resolve).once("end", resolve);
    await waitFor(promise, signal);
    socket.off("readable", resolve).off("end", resolve);
  }
}

/** The two bodies of one exchange, where no upgrade was asked for. */
function exchangeDuplex(message: IncomingMessage, response: ServerResponse): Duplex {
  const chunks = message[Symbol.asyncIterator]();
  const closed = new Promise<void>((resolve) => response.once("close", () => resolve()));
  return {
    closed,
    async read() {
      const { done, value } = await chunks.next();
      return done ? undefined : value as Uint8Array;
    },
    write: (bytes) => write(response, bytes),
    closeWrite: () => new Promise<void>((resolve) => response.end(() => resolve())),
    reset: () => void (response.writableEnded || response.destroy()),
  };
}

function write(to: ServerResponse | Socket, bytes: Uint8Array | string): Promise<void> {
  return new Promise((resolve, reject) =>
    to.write(bytes, (error) => error ? reject(error) : resolve())
  );
}

function contentOf({ json, text }: Answer): [body: string | undefined, type: string] {
  if (json !== undefined) return [`${JSON.stringify(json)}\n`, "application/json"];
  return [text, "text/plain; charset=utf-8"];
}

const NO_BODY = new Set([204, 304]);

async function sendResponse(response: ServerResponse, method: string, answer: Answer) {
  const { status = 200, headers, stream } = answer;
  if (stream) {
    response.writeHead(status, { ...serverHeaders(), ...headers });
    response.flushHeaders();
    for await (const chunk of stream) await write(response, chunk);
    return await new Promise<void>((resolve) => response.end(() => resolve()));
  }
  const [body, type] = contentOf(answer);
  const all: Record<string, string> = { ...serverHeaders(), ...headers };
  if (body !== undefined && !NO_BODY.has(status)) {
    all["content-type"] ??= type;
    all["content-length"] ??= String(new TextEncoder().encode(body).length);
  } else if (!NO_BODY.has(status)) all["content-length"] ??= "0";
  response.writeHead(status, all);
  await new Promise<void>((resolve) =>
    response.end(method === "HEAD" || NO_BODY.has(status) ? undefined : body, () => resolve())
  );
}

/** The answer to a request that asked for an upgrade and gets none. */
async function sendBare(socket: Socket, answer: Answer): Promise<void> {
  const { status = 200, headers, stream } = answer;
  const [body = "", type] = contentOf(answer);
  const bytes = new TextEncoder().encode(body);
  const fields = {
    "content-type": type,
    ...serverHeaders(),
    ...headers,
    ...!stream && { "content-length": String(bytes.length) },
    connection: "close",
  };
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`).join("");
  await write(socket, `HTTP/1.1 ${status} ${status}\r\n${lines}\r\n`);
  if (stream) { for await (const chunk of stream) await write(socket, chunk); }
  else if (bytes.length > 0) await write(socket, bytes);
  socket.end();
}
