/** One HTTP exchange on a connection of its own: nothing is kept open that a restart of the daemon could spoil. */
import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import type { Socket } from "node:net";
import { socketDuplex } from "../wire/socket_duplex.ts";
import type { Duplex } from "../wire/duplex.ts";

export interface Exchange {
  method: string;
  /** Path and query. */
  path: string;
  headers: Record<string, string>;
  body?: Uint8Array | ReadableStream<Uint8Array>;
  signal?: AbortSignal;
}

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** Errors where the body is cut off. Must be read or cancelled. */
  body: ReadableStream<Uint8Array>;
}

/** The answer, or the connection itself where the daemon switched protocols. */
export type Outcome = { answer: Answer } | { upgraded: Duplex };

/**
 * Sends the request and resolves with the answer's head. The signal covers the body too. `failed` turns an
 * error of the answer's body into the one to tell. Closes the socket with the answer's body.
 */
export function exchange(
  socket: Socket,
  { method, path, headers, body, signal }: Exchange,
  failed: (error: unknown) => unknown,
): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ createConnection: () => socket, method, path, headers });
    const abort = () => socket.destroy(signal!.reason);
    const over = () => signal?.removeEventListener("abort", abort);
    socket.on("error", () => {/* the request and the answer tell it */});
    socket.once("close", over);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
    let answered = false;
    const fail = (error: unknown) => {
      socket.destroy();
      reject(signal?.aborted ? signal.reason : error);
    };
    request.on("error", fail);
    const closed = () =>
      answered || fail(socket.errored ?? new Error("it was closed without an answer"));
    socket.once("close", closed);
    // It may have ended before it came here.
    if (socket.destroyed) closed();
    request.on("response", (message) => {
      answered = true;
      resolve({ answer: answerOf(message, socket, signal, failed) });
    });
    request.on("upgrade", (_message, connection, head) => {
      answered = true;
      if (head.length > 0) connection.unshift(head);
      resolve({ upgraded: socketDuplex(connection as Socket) });
    });
    send(request, body).catch((error) => answered || fail(error));
  });
}

function answerOf(
  message: IncomingMessage,
  socket: Socket,
  signal: AbortSignal | undefined,
  failed: (error: unknown) => unknown,
): Answer {
  const chunks: AsyncIterator<Uint8Array> = message[Symbol.asyncIterator]();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await chunks.next();
        if (!done) return controller.enqueue(value);
        if (!message.complete) throw new Error("its answer is cut off");
        controller.close();
      } catch (error) {
        controller.error(signal?.aborted ? signal.reason : failed(error));
      }
      socket.destroy();
    },
    cancel: () => void socket.destroy(),
  }, { highWaterMark: 0 });
  return { status: message.statusCode ?? 0, headers: message.headers, body };
}

/** Stops, and cancels the body, where the connection ends before the body does. */
async function send(request: ClientRequest, body: Exchange["body"]): Promise<void> {
  if (!(body instanceof ReadableStream)) {
    request.end(body);
    return;
  }
  const reader = body.getReader();
  let gone = false;
  let wake = () => {};
  // Nothing happens where it has ended; a read that waits ends.
  const cancel = () => void reader.cancel().catch(() => {/* it failed, which is told */});
  request.on("drain", () => wake());
  request.once("close", () => {
    gone = true;
    wake();
    cancel();
  });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (gone || request.destroyed) return;
      if (done) return void request.end();
      if (!request.write(value)) await new Promise<void>((resolve) => wake = resolve);
    }
  } finally {
    cancel();
  }
}
