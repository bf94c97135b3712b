/** The answering side of gRPC on a connection that is there already. */
import type { Buffer } from "node:buffer";
import http2 from "node:http2";
import type { Socket } from "node:net";
import { asSvcError, type ErrorCode, SvcError } from "../../base/errors.ts";
import { frameHead, messagesOf } from "./frames.ts";
import { withoutGoaway } from "./frames_in.ts";
import type { Method } from "./method.ts";
import { decodeMessage, encodeMessage } from "./protobuf.ts";

/** Bytes of one message from the caller. */
const MAX_MESSAGE = 16 << 20;

const UNIMPLEMENTED = 12;
const UNKNOWN = 2;

/** gRPC's statuses of our codes; all others are UNKNOWN, whose text callers show without the status. */
const STATUSES: Partial<Record<ErrorCode, number>> = {
  cancelled: 1,
  argument_invalid: 3,
  not_found: 5,
  denied: 7,
  unavailable: 14,
};

/** One call that is being answered. */
export interface Answering<In, Out> {
  /** What the caller sends; ends when the caller has sent all. */
  messages: AsyncIterable<In>;
  /** Resolves when more can be sent. */
  send(message: Out): Promise<void>;
  /** The head's fields. */
  metadata: http2.IncomingHttpHeaders;
  /** Aborts when the caller has cancelled the call, or has gone. */
  signal: AbortSignal;
}

/** A row of a service; the handler's error becomes the call's status. */
export interface Served {
  method: Method<object, object>;
  answer(call: Answering<object, object>): Promise<void>;
}

/** A method whose calls send and get any number of messages. */
export function serveStream<In extends object, Out extends object>(
  method: Method<In, Out>,
  answer: (call: Answering<In, Out>) => Promise<void>,
): Served {
  return { method, answer } as unknown as Served;
}

/** A method of one message and one answer. */
export function serveCall<In extends object, Out extends object>(
  method: Method<In, Out>,
  answer: (input: In, call: Answering<In, Out>) => Promise<Out> | Out,
): Served {
  return serveStream(method, async (call) => {
    for await (const input of call.messages) return await call.send(await answer(input, call));
    throw new SvcError("argument_invalid", `Cannot answer ${method.path}: there is no message`);
  });
}

/** Begins the answer, if no message has. */
function begin(stream: http2.ServerHttp2Stream): void {
  if (stream.headersSent || stream.destroyed) return;
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
}

function finish(stream: http2.ServerHttp2Stream, status: number, said = ""): void {
  if (stream.destroyed) return;
  stream.on("wantTrailers", () => {
    // The caller may have gone in this very moment.
    if (stream.destroyed) return;
    stream.sendTrailers({
      "grpc-status": String(status),
      ...(said !== "" && { "grpc-message": encodeURIComponent(said) }),
    });
  });
  begin(stream);
  stream.end();
}

function write(stream: http2.ServerHttp2Stream, bytes: Uint8Array): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  if (stream.destroyed) return Promise.resolve();
  stream.once("close", resolve);
  stream.write(frameHead(bytes.length));
  stream.write(bytes, () => {
    stream.off("close", resolve);
    resolve();
  });
  return promise;
}

async function answer(
  stream: http2.ServerHttp2Stream,
  metadata: http2.IncomingHttpHeaders,
  served: Served | undefined,
): Promise<void> {
  const gone = new AbortController();
  stream.on("error", () => {/* the close tells */});
  stream.on("close", () => gone.abort(new SvcError("cancelled", "Cannot answer: the caller went")));
  if (!served) {
    stream.resume();
    const path = String(metadata[":path"]).slice(0, 200);
    return finish(stream, UNIMPLEMENTED, `Cannot answer ${path}: svc has no such method`);
  }
  const { method } = served;
  async function* messages() {
    // A handler that wants no more messages still has its answer to send.
    const chunks = stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>;
    for await (const bytes of messagesOf(chunks, MAX_MESSAGE)) {
      yield decodeMessage<object>(method.input, bytes);
    }
  }
  try {
    await served.answer({
      messages: messages(),
      send: async (message) => {
        gone.signal.throwIfAborted();
        begin(stream);
        await write(stream, encodeMessage(method.output, message));
      },
      metadata,
      signal: gone.signal,
    });
    finish(stream, 0);
  } catch (error) {
    const { code, message } = asSvcError(error, `Cannot answer ${method.path}`);
    finish(stream, STATUSES[code] ?? UNKNOWN, message);
  }
}

/**
 * Answers calls on the connection until it ends; then every call's signal aborts. Unknown methods are
 * answered UNIMPLEMENTED.
 */
export async function serveGrpc(
  socket: Socket,
  served: readonly Served[],
  signal: AbortSignal,
): Promise<void> {
  const rows = new Map(served.map((row) => [`/${row.method.path}`, row]));
  const server = http2.createServer();
  server.on("stream", (stream, metadata) => {
    const own = stream as http2.ServerHttp2Stream;
    // A stream whose session has just ended does not say so yet, and takes no answer.
    answer(own, metadata, rows.get(String(metadata[":path"]))).catch(() => own.destroy());
  });
  server.on("sessionError", () => socket.destroy());
  const { promise, resolve } = Promise.withResolvers<void>();
  const end = () => void socket.destroy();
  signal.addEventListener("abort", end, { once: true });
  socket.once("close", () => resolve());
  socket.on("error", end);
  if (signal.aborted) end();
  else server.emit("connection", withoutGoaway(socket));
  await promise;
  signal.removeEventListener("abort", end);
}
