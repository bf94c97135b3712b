/** The calling side of gRPC on a connection that is there already. */
import http2 from "node:http2";
import type { Duplex } from "node:stream";
import { type ErrorCode, SvcError } from "../../base/errors.ts";
import { Call, type CallFailure } from "./call.ts";
import type { Method } from "./method.ts";

/** Bytes that the other side may send on a stream before they are read. */
const WINDOW = 1 << 20;

const CODES: Record<number, ErrorCode> = {
  1: "cancelled",
  3: "argument_invalid",
  4: "timeout",
  5: "not_found",
  7: "denied",
  12: "unsupported",
  14: "unavailable",
};

export interface PeerCall {
  signal?: AbortSignal;
  /** Fields of the head. A list is sent as that many fields of the same name. */
  metadata?: Readonly<Record<string, string | readonly string[]>>;
}

/** The side that answers, on the other end of one connection. */
export interface GrpcPeer extends Disposable {
  /**
   * Begins a call; the caller disposes of it. Throws `unavailable` where the connection is lost; the call's
   * statuses become errors of their kind, `upstream_failed` for most.
   */
  open<In extends object, Out>(
    method: Method<In, Out>,
    attempted: string,
    call?: PeerCall,
  ): Call<In, Out>;
  /** Calls a method with one answer. */
  call<In extends object, Out>(
    method: Method<In, Out>,
    input: In,
    attempted: string,
    call?: PeerCall,
  ): Promise<Out>;
  /** Resolves when the connection has ended. */
  closed: Promise<void>;
}

function failure(attempted: string) {
  return ({ status, said }: CallFailure) =>
    new SvcError(CODES[status] ?? "upstream_failed", `${attempted}: ${said}`);
}

class Peer implements GrpcPeer {
  readonly closed: Promise<void>;
  readonly #session: http2.ClientHttp2Session;

  constructor(socket: Duplex) {
    this.#session = http2.connect("http://localhost", {
      createConnection: () => socket,
      settings: { initialWindowSize: WINDOW },
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    // An error is followed by the end, which calls tell.
    this.#session.on("error", () => {});
    this.#session.on("close", resolve);
  }

  open<In extends object, Out>(
    method: Method<In, Out>,
    attempted: string,
    { signal, metadata = {} }: PeerCall = {},
  ): Call<In, Out> {
    signal?.throwIfAborted();
    const lost = (cause?: unknown) =>
      new SvcError("unavailable", `${attempted}: the connection to the caller was lost`, { cause });
    let stream: http2.ClientHttp2Stream;
    try {
      stream = this.#session.request({
        ...metadata as Record<string, string | string[]>,
        ":method": "POST",
        ":path": `/${method.path}`,
        "content-type": "application/grpc",
        "te": "trailers",
      });
    } catch (error) {
      throw lost(error);
    }
    return new Call(stream, { method, failed: failure(attempted), lost, signal });
  }

  async call<In extends object, Out>(
    method: Method<In, Out>,
    input: In,
    attempted: string,
    options?: PeerCall,
  ): Promise<Out> {
    using call = this.open(method, attempted, options);
    await call.send(input, { last: true });
    let answer: Out | undefined;
    for (let next; (next = await call.receive()) !== undefined;) answer = next;
    if (answer === undefined) {
      throw new SvcError("upstream_failed", `${attempted}: the caller sent no answer`);
    }
    return answer;
  }

  [Symbol.dispose](): void {
    this.#session.destroy();
  }
}

/** Takes the connection over; it ends with the peer. */
export function openPeer(socket: Duplex): GrpcPeer {
  return new Peer(socket);
}
