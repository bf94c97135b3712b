/**
 * A client of the host's containerd: gRPC over HTTP/2 on its Unix socket. All calls share one connection;
 * after a restart of containerd the next call connects again.
 */
import http2 from "node:http2";
import net from "node:net";
import { SvcError, systemCode } from "../base/errors.ts";
import { Call } from "../wire/grpc/call.ts";
import type { Method } from "../wire/grpc/method.ts";
import { containerdFailure } from "./failure.ts";

export interface CallOptions {
  /** Cancels the call. */
  signal?: AbortSignal;
  /** Id of the lease that keeps the resources that the call makes or uses. */
  lease?: string;
}

export interface ContainerdOptions {
  /** Path of the socket. */
  address: string;
  /** containerd's namespace; names in one namespace are not visible in another. */
  namespace: string;
}

/** Bytes that containerd may send on a stream before they are read. */
const WINDOW = 1 << 20;

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

/** Connects the socket first, so that a missing containerd is told apart from an error of the protocol. */
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

  /** Calls a method with one answer. Throws what `open` throws. */
  async call<In extends object, Out>(
    method: Method<In, Out>,
    input: In,
    attempted: string,
    options?: CallOptions,
  ): Promise<Out> {
    let answer: Out | undefined;
    for await (const message of this.stream(method, input, attempted, options)) answer = message;
    if (answer === undefined) {
      throw new SvcError("upstream_failed", `${attempted}: containerd sent no answer`);
    }
    return answer;
  }

  /** Calls a method with several answers. Throws what `open` throws. */
  async *stream<In extends object, Out>(
    method: Method<In, Out>,
    input: In,
    attempted: string,
    options?: CallOptions,
  ): AsyncGenerator<Out, void, void> {
    using call = await this.open(method, attempted, options);
    await call.send(input, { last: true });
    for (let next; (next = await call.receive()) !== undefined;) yield next;
  }

  /**
   * Begins a call that takes several messages, or answers while it takes them. Throws `prerequisite_missing`
   * where containerd cannot be reached, `unavailable` where the connection broke, and by status `not_found`,
   * `conflict`, `internal`…
   */
  async open<In extends object, Out>(
    method: Method<In, Out>,
    attempted: string,
    { signal, lease }: CallOptions = {},
  ): Promise<Call<In, Out>> {
    signal?.throwIfAborted();
    const session = await this.#connect();
    signal?.throwIfAborted();
    const stream = this.#request(session, { path: method.path, attempted, lease });
    const lost = (cause?: unknown) => this.#lost(attempted, cause);
    return new Call(stream, { method, failed: containerdFailure(attempted), lost, signal });
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
    { path, attempted, lease }: { path: string; attempted: string; lease?: string },
  ): http2.ClientHttp2Stream {
    try {
      return session.request({
        ":method": "POST",
        ":path": `/${path}`,
        "content-type": "application/grpc",
        "te": "trailers",
        "containerd-namespace": this.namespace,
        ...(lease !== undefined && { "containerd-lease": lease }),
      });
    } catch (error) {
      // One of the two sides is closing the connection.
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
