/** One call of gRPC over HTTP/2: messages in both directions, then a status. */
import { Buffer } from "node:buffer";
import http2 from "node:http2";
import { type ErrorCode, SvcError } from "../base/errors.ts";
import type { Method } from "./api.ts";
import { decodeMessage, encodeMessage } from "./protobuf.ts";

/** gRPC statuses with an error code of their own; all others are containerd's own failures. */
const CODES: Record<number, ErrorCode> = {
  1: "cancelled",
  3: "argument_invalid",
  4: "timeout",
  5: "not_found",
  6: "conflict",
  7: "denied",
  8: "storage_full",
  9: "conflict",
  12: "unsupported",
  14: "unavailable",
};

const HEAD = 5;

export interface CallOptions {
  /** Cancels the call. */
  signal?: AbortSignal;
  /** Id of the lease that keeps the resources that the call makes or uses. */
  lease?: string;
}

interface CallParts<In, Out> {
  method: Method<In, Out>;
  /** What was attempted, for error messages. */
  attempted: string;
  /** Makes the error for a connection that broke. */
  lost: (cause?: unknown) => SvcError;
  signal?: AbortSignal;
}

/** Splits a stream of bytes into messages; the chunks may have any size. */
async function* messagesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void, void> {
  let pieces: Buffer[] = [];
  let have = 0, need = HEAD;
  for await (const chunk of chunks) {
    pieces.push(chunk);
    have += chunk.length;
    while (have >= need) {
      const bytes = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
      pieces = [bytes];
      const end = HEAD + bytes.readUInt32BE(1);
      if (have < end) {
        need = end;
        break;
      }
      yield bytes.subarray(HEAD, end);
      pieces = [bytes.subarray(end)];
      have -= end;
      need = HEAD;
    }
  }
}

export class Call<In extends object, Out> implements Disposable {
  readonly #parts: CallParts<In, Out>;
  readonly #stream: http2.ClientHttp2Stream;
  readonly #messages: AsyncGenerator<Out, void, void>;
  readonly #abort = () => this.#stream.close(http2.constants.NGHTTP2_CANCEL);
  #status: number | undefined;
  #said = "";

  constructor(stream: http2.ClientHttp2Stream, parts: CallParts<In, Out>) {
    this.#stream = stream;
    this.#parts = parts;
    parts.signal?.addEventListener("abort", this.#abort, { once: true });
    const heads = (fields: http2.IncomingHttpHeaders) => {
      if (fields["grpc-status"] === undefined) return;
      this.#status = Number(fields["grpc-status"]);
      this.#said = decodeURIComponent(String(fields["grpc-message"] ?? ""));
    };
    stream.on("response", heads);
    stream.on("trailers", heads);
    // The reader of the stream sees the error too; without a reader nobody needs it.
    stream.on("error", () => {});
    this.#messages = this.#read();
  }

  /**
   * Resolves when containerd can take more, or has ended the call; `receive` then says why. The last message
   * should set `last`: containerd resets a stream when it has answered before it saw the stream's end.
   */
  async send(message: In, { last = false } = {}): Promise<void> {
    const stream = this.#stream;
    if (stream.closed || stream.destroyed) return;
    const body = encodeMessage(this.#parts.method.input, message);
    const head = Buffer.alloc(HEAD);
    head.writeUInt32BE(body.length, 1);
    const { promise, resolve } = Promise.withResolvers<void>();
    stream.once("close", resolve);
    stream.write(head);
    if (last) stream.end(body, () => resolve());
    else stream.write(body, () => resolve());
    await promise;
    stream.off("close", resolve);
  }

  /** Ends the messages, where the last one did not set `last`. */
  end(): void {
    this.#stream.end();
  }

  /** False where no more messages can be sent. */
  get open(): boolean {
    return !this.#stream.closed && !this.#stream.destroyed;
  }

  /** The next message; undefined when containerd has ended the call without an error. Throws by status. */
  async receive(): Promise<Out | undefined> {
    const { done, value } = await this.#messages.next();
    return done ? undefined : value;
  }

  [Symbol.dispose](): void {
    this.#parts.signal?.removeEventListener("abort", this.#abort);
    if (!this.#stream.closed) this.#stream.close(http2.constants.NGHTTP2_CANCEL);
  }

  async *#read(): AsyncGenerator<Out, void, void> {
    const { method, attempted, lost, signal } = this.#parts;
    try {
      for await (const bytes of messagesOf(this.#stream as AsyncIterable<Buffer>)) {
        yield decodeMessage<Out>(method.output, bytes);
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof SvcError) throw error;
      throw lost(error);
    }
    signal?.throwIfAborted();
    if (this.#status === undefined) throw lost();
    if (this.#status !== 0) {
      // containerd has no status of its own for this.
      const full = /no space left on device|disk quota exceeded/.test(this.#said);
      const code = full ? "storage_full" : CODES[this.#status] ?? "internal";
      const help = full ? "free space on containerd's volume" : "see containerd's log";
      throw new SvcError(code, `${attempted}: ${this.#said}`, { help });
    }
  }
}
