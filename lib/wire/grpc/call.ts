/** One call of gRPC over HTTP/2 from the caller's side: messages in both directions, then a status. */
import type { Buffer } from "node:buffer";
import http2 from "node:http2";
import { SvcError } from "../../base/errors.ts";
import { frameHead, messagesOf } from "./frames.ts";
import type { Method } from "./method.ts";
import { decodeMessage, encodeMessage } from "./protobuf.ts";

/** A status other than 0, and what the other side says of it. */
export interface CallFailure {
  status: number;
  said: string;
}

interface CallParts<In, Out> {
  method: Method<In, Out>;
  /** Makes the error for a status. */
  failed: (failure: CallFailure) => SvcError;
  /** Makes the error for a connection that broke. */
  lost: (cause?: unknown) => SvcError;
  signal?: AbortSignal;
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
   * Resolves when the other side can take more, or has ended the call; `receive` then says why. The last message
   * should set `last`: a server may reset a stream when it has answered before it saw the stream's end.
   */
  async send(message: In, { last = false } = {}): Promise<void> {
    const stream = this.#stream;
    if (stream.closed || stream.destroyed) return;
    const body = encodeMessage(this.#parts.method.input, message);
    const { promise, resolve } = Promise.withResolvers<void>();
    stream.once("close", resolve);
    stream.write(frameHead(body.length));
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

  /** The next message; undefined when the other side has ended the call without an error. Throws by status. */
  async receive(): Promise<Out | undefined> {
    const { done, value } = await this.#messages.next();
    return done ? undefined : value;
  }

  [Symbol.dispose](): void {
    this.#parts.signal?.removeEventListener("abort", this.#abort);
    if (!this.#stream.closed) this.#stream.close(http2.constants.NGHTTP2_CANCEL);
  }

  async *#read(): AsyncGenerator<Out, void, void> {
    const { method, failed, lost, signal } = this.#parts;
    try {
      for await (const bytes of messagesOf(this.#stream as AsyncIterable<Buffer>)) {
        yield decodeMessage<Out>(method.output, bytes);
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof SvcError) throw error;
      // A server that has answered resets a stream whose caller has not ended its own side.
      if (this.#status === undefined) throw lost(error);
    }
    signal?.throwIfAborted();
    if (this.#status === undefined) throw lost();
    if (this.#status !== 0) throw failed({ status: this.#status, said: this.#said });
  }
}
