/** What both request readers, svc's own and node's, share with the server's handler. */
import { Reply } from "../../api/reply.ts";
import type { BlobBody } from "../../oci/image.ts";
import type { ClientCertificate, Connection } from "../route.ts";
import type { Peer } from "./peer.ts";

/** How an exchange went. */
export interface Ended {
  /** Bytes of the answer's body that left for the client. */
  readonly sent: number;
  /** Bytes of the request's body that were read. */
  readonly received: number;
  /** False where the client left, or the body failed, before the answer was sent. */
  readonly whole: boolean;
}

/**
 * Never rejects in our server. `ended` takes a callback that is called once, when the answer has been sent or
 * the client has gone.
 */
export type Handler = (
  request: Request,
  connection: Connection,
  ended: (callback: (ended: Ended) => void) => void,
) => Promise<Response>;

function blobReply(body: BlobBody, init: { status: number; headers: Headers }): Response {
  const fields: Record<string, string> = { "content-length": String(body.size) };
  for (const [name, value] of init.headers) fields[name] = value;
  return new Reply(init.status, fields, body);
}

export type Upgrade = Connection["upgrade"];

export class PeerConnection implements Connection {
  readonly blob = blobReply;

  constructor(private readonly peer: Peer, readonly upgrade: Upgrade) {}

  get remote(): string {
    return this.peer.remote;
  }

  get certificate(): ClientCertificate | undefined {
    return this.peer.certificate;
  }
}

/** The end of one request. The callback is called once. */
export class Ending implements Ended {
  #callback: ((ended: Ended) => void) | undefined;
  #abort: AbortController | undefined;
  #gone = false;
  #done = false;
  sent = 0;
  received = 0;
  whole = false;

  readonly add = (callback: (ended: Ended) => void): void => {
    this.#callback = callback;
  };

  readonly count = (bytes: number): void => {
    this.sent += bytes;
  };

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#gone) this.#abort.abort(abandoned());
    return this.#abort.signal;
  }

  /** The connection was closed. After `done` this changes nothing. */
  gone(): void {
    if (this.#done || this.#gone) return;
    this.#gone = true;
    this.#abort?.abort(abandoned());
  }

  done(): void {
    if (this.#done) return;
    this.#done = true;
    this.#callback?.(this);
  }
}

const abandoned = () => new DOMException("the client has gone away", "AbortError");

/** An answer of the listener itself; handlers turn their own errors into answers. */
export function plainReply(status: number, text: string): Reply {
  const bytes = new TextEncoder().encode(`${text}\n`);
  const fields = { "content-type": "text/plain", "content-length": String(bytes.length) };
  return new Reply(status, fields, bytes);
}

export const FAILED = plainReply(500, "internal error");

/** The parts of an answer. A body that HEAD or the status forbids is cancelled. */
export async function contentOf(
  answer: Response,
  method: string,
): Promise<{ pairs: string[]; content: Reply["content"] | ReadableStream<Uint8Array> }> {
  const pairs = answer instanceof Reply ? answer.pairs() : [...answer.headers].flat();
  const content = answer instanceof Reply ? answer.content : answer.body;
  const bodiless = method === "HEAD" || answer.status === 204 || answer.status === 304;
  if (!bodiless || content === null) return { pairs, content };
  if (content instanceof ReadableStream) {
    await content.cancel().catch(() => {/* it failed first */});
  }
  return { pairs, content: null };
}

/** A stream may go on for ever and pause in between; a body of known length must keep moving. */
export const isLive = (content: unknown, pairs: readonly string[]) =>
  content instanceof ReadableStream && !pairs.includes("content-length");
