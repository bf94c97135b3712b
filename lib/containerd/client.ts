/**
 * A client of the host's containerd: gRPC over HTTP/2 on its Unix socket. One connection serves all calls;
 * a containerd that was restarted is connected to anew by the next call.
 */
import { Buffer } from "node:buffer";
import http2 from "node:http2";
import net from "node:net";
import { type ErrorCode, SvcError, systemCode } from "../base/errors.ts";
import type { Method } from "./api.ts";
import { decodeMessage, encodeMessage } from "./protobuf.ts";

export interface ContainerdOptions {
  /** Path of the socket. */
  address: string;
  /** containerd's namespace: names in one are not seen in another. */
  namespace: string;
}

/** Statuses of gRPC that say something to us; all others are containerd's own failures. */
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

/** Bytes that containerd may send ahead on a stream. */
const WINDOW = 1 << 20;
const HEAD = 5;

function unreachable(address: string, error: unknown): SvcError {
  const say = (why: string, help: string) =>
    new SvcError("prerequisite_missing", `Cannot use containerd at ${address}: ${why}`, {
      cause: error,
      help,
    });
  switch (systemCode(error)) {
    case "ENOENT":
      return say(
        "there is no such socket",
        "install and start containerd, or set SVC_CONTAINERD_ADDRESS to its socket",
      );
    case "ECONNREFUSED":
      return say("nothing listens there", "start containerd");
    case "EACCES":
    case "EPERM":
      return say("this process may not open the socket", "run the server as root");
    default:
      return say(error instanceof Error ? error.message : String(error), "see containerd's log");
  }
}

/** The socket, connected: an error before that is told apart from one of the protocol. */
function dial(address: string): Promise<net.Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<net.Socket>();
  const socket = net.connect(address);
  socket.once("connect", () => resolve(socket));
  socket.once("error", (error) => reject(unreachable(address, error)));
  return promise;
}

export class ContainerdClient implements AsyncDisposable {
  readonly address: string;
  readonly namespace: string;
  #session: Promise<http2.ClientHttp2Session> | undefined;

  constructor({ address, namespace }: ContainerdOptions) {
    this.address = address;
    this.namespace = namespace;
  }

  /** Calls a method that answers once. Throws what `stream` throws. */
  async call<In extends object, Out>(
    method: Method<In, Out>,
    input: In,
    attempted: string,
    signal?: AbortSignal,
  ): Promise<Out> {
    let answer: Out | undefined;
    for await (const message of this.stream(method, input, attempted, signal)) answer = message;
    if (answer === undefined) {
      throw new SvcError("upstream_failed", `${attempted}: containerd sent no answer`);
    }
    return answer;
  }

  /**
   * Calls a method that may answer several times. Throws `prerequisite_missing` where containerd is not
   * there, `unavailable` where it went away meanwhile, and by status `not_found`, `conflict`, `internal`…
   */
  async *stream<In extends object, Out>(
    method: Method<In, Out>,
    input: In,
    attempted: string,
    signal?: AbortSignal,
  ): AsyncGenerator<Out, void, void> {
    signal?.throwIfAborted();
    const session = await this.#connect();
    signal?.throwIfAborted();
    const stream = this.#request(session, method.path, attempted);
    const abort = () => stream.close(http2.constants.NGHTTP2_CANCEL);
    signal?.addEventListener("abort", abort, { once: true });
    let status: number | undefined;
    let said = "";
    const heads = (fields: http2.IncomingHttpHeaders) => {
      if (fields["grpc-status"] === undefined) return;
      status = Number(fields["grpc-status"]);
      said = decodeURIComponent(String(fields["grpc-message"] ?? ""));
    };
    stream.on("response", heads);
    stream.on("trailers", heads);
    const body = encodeMessage(method.input, input);
    const head = Buffer.alloc(HEAD);
    head.writeUInt32BE(body.length, 1);
    stream.write(head);
    stream.end(body);
    try {
      let buffer: Buffer = Buffer.alloc(0);
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        buffer = buffer.length === 0 ? chunk : Buffer.concat([buffer, chunk]);
        while (buffer.length >= HEAD) {
          const end = HEAD + buffer.readUInt32BE(1);
          if (buffer.length < end) break;
          yield decodeMessage<Out>(method.output, buffer.subarray(HEAD, end));
          buffer = buffer.subarray(end);
        }
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof SvcError) throw error;
      throw this.#lost(attempted, error);
    } finally {
      signal?.removeEventListener("abort", abort);
      if (!stream.closed) stream.close(http2.constants.NGHTTP2_CANCEL);
    }
    signal?.throwIfAborted();
    if (status === undefined) throw this.#lost(attempted);
    if (status !== 0) {
      throw new SvcError(CODES[status] ?? "internal", `${attempted}: ${said}`, {
        help: "see containerd's log",
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const session = await this.#session?.catch(() => undefined);
    this.#session = undefined;
    if (!session || session.destroyed) return;
    const closed = new Promise<void>((resolve) => session.once("close", () => resolve()));
    session.destroy();
    await closed;
  }

  #request(
    session: http2.ClientHttp2Session,
    path: string,
    attempted: string,
  ): http2.ClientHttp2Stream {
    try {
      return session.request({
        ":method": "POST",
        ":path": `/${path}`,
        "content-type": "application/grpc",
        "te": "trailers",
        "containerd-namespace": this.namespace,
      });
    } catch (error) {
      // It is being closed, by the other side or by us.
      throw this.#lost(attempted, error);
    }
  }

  #lost(attempted: string, cause?: unknown): SvcError {
    return new SvcError(
      "unavailable",
      `${attempted}: the connection to containerd at ${this.address} was lost`,
      { cause, help: "check that containerd runs, then try again" },
    );
  }

  #connect(): Promise<http2.ClientHttp2Session> {
    if (this.#session) return this.#session;
    const opened: Promise<http2.ClientHttp2Session> = this.#open(() => {
      if (this.#session === opened) this.#session = undefined;
    });
    this.#session = opened;
    return opened;
  }

  async #open(forget: () => void): Promise<http2.ClientHttp2Session> {
    let socket: net.Socket;
    try {
      socket = await dial(this.address);
    } catch (error) {
      forget();
      throw error;
    }
    const session = http2.connect("http://localhost", {
      createConnection: () => socket,
      settings: { initialWindowSize: WINDOW },
    });
    session.on("error", forget);
    session.on("close", forget);
    session.on("goaway", forget);
    return session;
  }
}
