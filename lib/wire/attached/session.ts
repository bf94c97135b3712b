/**
 * An attached session: one WebSocket between a caller and a server, and many streams on it. Deploy sessions,
 * builds, commands, forwarded ports and the ingress's local port all run on it (docs/decisions/
 * attached-session.md).
 *
 * - Hello: the caller's travels in the request's header `svc-attached`, the server's is the first message, a
 *   text. Each says which versions it speaks and which kinds of streams it takes (hello.ts). A caller may send
 *   before the server's has arrived: a server that does not know the caller's version refuses the request.
 * - Streams: all binary messages are yamux. Either end opens streams; each begins with one line of JSON whose
 *   `kind` says what follows (kinds.ts). A stream of a kind that was not offered is reset.
 * - Flow: a stream's window limits how much a sender may be ahead of its reader, and so the memory of the
 *   stream. Half-closes are yamux's FIN.
 * - Life: both ends ping every 30 s. An end that received nothing since its last ping gives the session up.
 * - End: close code 1000 for a normal end. Otherwise 4000 with the beginning of the reason; a text message before
 *   it may have the whole error (farewell.ts).
 * - A lost connection ends the session's streams. lib/server/attached/lasting.ts decides what can be resumed, and for
 *   how long.
 */
import { every } from "../../base/beat.ts";
import { SvcError } from "../../base/errors.ts";
import { isLost, type Link, lost, YamuxSession } from "../yamux/session.ts";
import { HEADER_SIZE } from "../yamux/frame.ts";
import { MAX_DATA, type YamuxStream } from "../yamux/stream.ts";
import { CLOSE, readFarewell, shortReason, writeFarewell } from "./farewell.ts";
import { agree, type Hello, readHello, writeHello } from "./hello.ts";
import { isKind, type Kind } from "./kinds.ts";

/** Bytes that may wait in the socket before more is sent: `send` itself only buffers. */
const HIGH_WATER = 2 << 20;
/** Small messages also cost the socket memory: after this many the session waits until all were taken. */
const BURST = 1024;
const POLL_MS = 2;
/** Frames up to this many bytes do not reuse memory. */
const SMALL = 4 * 1024;
const MAX_FRAME = HEADER_SIZE + MAX_DATA;

/** Sockets of the server (package `ws`) call `sent` when a message is out; other sockets ignore it. */
interface Telling extends WebSocket {
  send(data: Uint8Array<ArrayBuffer>, sent?: () => void): void;
}

/** Bytes of a stream's first line, at most. */
const MAX_HEAD = 4096;
/** How long the other side may take for its hello, and for a stream's first line. */
const PATIENCE_MS = 30_000;

const NEWLINE = 10;

/** The members of a stream's first line, beside `kind`. */
export type Fields = Record<string, unknown>;

/** Handles a stream that the other side opened; an error that it throws resets the stream. */
export type Handler = (stream: YamuxStream, fields: Fields) => unknown;

export interface AttachedOptions {
  role: "caller" | "server";
  /** What is attempted, for errors: "exec in web". */
  attempt: string;
  /** Kinds of streams that the other side may open, with the handler of each. */
  takes?: Partial<Record<Kind, Handler>>;
  /** Streams that the other side may have open at once; further ones are reset. */
  maxStreams?: number;
  /** At the server: the caller's hello. */
  hello?: Hello;
  /** Milliseconds between two keepalive checks. */
  beatMs?: number;
  /** Makes the error that is thrown when the connection is lost. */
  lost?: (why?: string) => SvcError;
}

export class Attached implements Disposable {
  readonly #options: AttachedOptions;
  readonly #yamux: YamuxSession;
  readonly #takes: Partial<Record<Kind, Handler>>;
  /** Resolves when the socket is open. */
  readonly #opened = Promise.withResolvers<void>();
  /** Resolves when the socket is open and the other side's hello has arrived. */
  readonly #ready = Promise.withResolvers<void>();
  #socket: WebSocket | undefined;
  #theirs: Hello | undefined;
  #burst = 0;
  /** Memory for frames that is free for reuse. */
  readonly #scratch: Uint8Array<ArrayBuffer>[] = [];
  /** The error to send to the other side in full. */
  #farewell: SvcError | undefined;
  #stopWaiting = () => {};
  /** Set when the session has ended. */
  #end: { reason: Error | undefined } | undefined;

  constructor(options: AttachedOptions) {
    this.#options = options;
    this.#takes = options.takes ?? {};
    this.#theirs = options.hello;
    for (const { promise } of [this.#opened, this.#ready]) {
      promise.catch(() => {/* `closed` tells it */});
    }
    const { role, beatMs } = options;
    const link: Link = {
      send: (head, data) => this.#send(head, data),
      close: (reason) => this.#hangUp(reason),
    };
    this.#yamux = new YamuxSession(link, {
      role: role === "caller" ? "client" : "server",
      // A caller's WebSocket does not switch Nagle's algorithm off, the server's does.
      promptly: role === "server",
      maxStreams: options.maxStreams ?? 16,
      onStream: (stream) => void this.#accept(stream),
      ...(beatMs !== undefined && { keepAliveMs: beatMs }),
      ...(options.lost && { lost: options.lost }),
    });
  }

  /** The hello of this end. */
  static hello({ takes = {} }: Pick<AttachedOptions, "takes">, resume?: Hello["resume"]): string {
    return writeHello(Object.keys(takes).filter(isKind), resume);
  }

  /** Resolves when the other side is known to take streams. Rejects if the session ends before that. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Settles once, at the end: with the error that broke the session, or undefined after a normal end. */
  get closed(): Promise<Error | undefined> {
    return this.#yamux.closed;
  }

  /** Whether the other side takes streams of that kind. */
  takes(kind: Kind): boolean {
    return this.#theirs?.takes.includes(kind) === true;
  }

  /**
   * Opens a stream. At the caller it is announced with its first bytes: a separate message would delay them.
   * Throws `unsupported` for a kind that the other side does not take, `upstream_failed` after the end.
   */
  open(kind: Kind, fields: Fields = {}): YamuxStream {
    const { role, attempt } = this.#options;
    if (this.#theirs && !this.takes(kind)) {
      const who = role === "caller" ? "server" : "client";
      throw new SvcError("unsupported", `Cannot ${attempt}: the ${who} takes no stream ${kind}`, {
        help: `update svc on the ${who}'s side`,
      });
    }
    const head = new TextEncoder().encode(JSON.stringify({ kind, ...fields }) + "\n");
    const stream = this.#yamux.open(head);
    if (role === "server") {
      stream.write(new Uint8Array(0)).catch(() => {/* told by the next call */});
    }
    return stream;
  }

  /** Resolves when the other side has received everything that was sent. Throws where the session ends first. */
  received(): Promise<void> {
    return this.#yamux.ping();
  }

  /** Ends the session normally, after everything that was sent. */
  close(): Promise<void> {
    return this.#yamux.close();
  }

  /** Ends the session and sends the error to the other side; from now on calls at this end throw it too. */
  fail(error: SvcError): void {
    this.#farewell ??= error;
    this.#yamux.fail(error);
  }

  /** Ends the session as if the connection was lost: it may then be resumed. */
  drop(why: string): void {
    this.#yamux.lost(why);
  }

  [Symbol.dispose](): void {
    this.drop("it was closed here");
  }

  /** For the owner of the socket: the socket is open. */
  opened(socket: WebSocket): void {
    this.#socket = socket;
    if (this.#options.role === "server") socket.send(Attached.hello(this.#options));
    if (this.#end) return this.#hangUp(this.#end.reason);
    this.#stopWaiting = every(PATIENCE_MS, () => this.drop("the server does not say hello"));
    this.#opened.resolve();
    this.#settle();
  }

  #settle(): void {
    if (!this.#socket || !this.#theirs) return;
    this.#stopWaiting();
    this.#ready.resolve();
  }

  /** For the owner of the socket: a message arrived. Never throws: an invalid message ends the session. */
  receive(data: Uint8Array | string): void {
    const { role, attempt } = this.#options;
    try {
      if (!this.#theirs) {
        this.#theirs = greeted(data, attempt);
        return this.#settle();
      }
    } catch (error) {
      return this.fail(error as SvcError);
    }
    if (typeof data !== "string") return this.#yamux.receive(data);
    const told = readFarewell(data);
    if (told) return this.#yamux.fail(told);
    const who = role === "caller" ? "server" : "client";
    this.fail(
      new SvcError(
        "argument_invalid",
        `Cannot ${attempt}: the ${who} sent text that is not an error`,
      ),
    );
  }

  /** For the owner of the socket: the socket has closed. */
  closedBy({ code, reason }: { code: number; reason: string }): void {
    if (code === CLOSE.DONE) this.#yamux.over();
    else this.#yamux.lost(reason || undefined);
  }

  get #isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  async #send(head: Uint8Array<ArrayBuffer>, data?: Uint8Array): Promise<void> {
    if (!this.#socket) await this.#opened.promise;
    if (!this.#isOpen) throw (this.#options.lost ?? lost)();
    const socket = this.#socket!;
    if (!data) socket.send(head);
    else this.#sendJoined(socket, head, data);
    this.#burst++;
    while (
      (socket.bufferedAmount > HIGH_WATER || this.#burst >= BURST && socket.bufferedAmount > 0) &&
      this.#isOpen
    ) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    if (this.#burst >= BURST) this.#burst = 0;
  }

  /**
   * Sends both parts in one message and reuses the memory: at the caller at once, as a standard WebSocket
   * copies the message; at the server when its socket reports that the message is out.
   */
  #sendJoined(socket: WebSocket, head: Uint8Array, data: Uint8Array): void {
    const length = head.length + data.length;
    const kept = data.length > SMALL;
    const whole = kept ? this.#scratch.pop() ?? new Uint8Array(MAX_FRAME) : new Uint8Array(length);
    whole.set(head);
    whole.set(data, head.length);
    const again = () => void (kept && this.#scratch.push(whole));
    (socket as Telling).send(whole.subarray(0, length), again);
    if (this.#options.role === "caller") again();
  }

  /** Closes the socket, also one that opens only later. `reason`: the error that broke the session. */
  #hangUp(reason: Error | undefined): void {
    this.#end = { reason };
    this.#stopWaiting();
    for (const { reject } of [this.#opened, this.#ready]) reject(reason ?? lost("it has ended"));
    const socket = this.#socket;
    if (!socket || socket.readyState > WebSocket.OPEN) return;
    if (!reason) return socket.close(CLOSE.DONE);
    if (this.#farewell) socket.send(writeFarewell(this.#farewell));
    const [, why = reason.message] = /^[^:]*: (.*)/s.exec(reason.message) ?? [];
    socket.close(CLOSE.FAILED, shortReason(why));
  }

  /** Reads the first line of a stream and calls the handler of its kind. */
  async #accept(stream: YamuxStream): Promise<void> {
    const late = this.#options.role === "server"
      ? setTimeout(() => stream.reset(), PATIENCE_MS)
      : undefined;
    try {
      // At the caller not even clearTimeout is used: the first use loads node's timers (lib/base/beat.ts).
      const { kind, ...fields } = await readHead(stream).finally(() => late && clearTimeout(late));
      const handler = isKind(kind) ? this.#takes[kind] : undefined;
      if (!handler) return stream.reset();
      await handler(stream, fields);
    } catch {
      // The reset tells the other side that its stream has ended.
      stream.reset();
    }
  }
}

/** Reads the server's hello. Throws `unsupported` for another version, or for a message that is not a hello. */
function greeted(data: Uint8Array | string, attempt: string): Hello {
  const hello = typeof data === "string" ? readHello(data) : undefined;
  if (hello) {
    agree(hello, { attempt, who: "server" });
    return hello;
  }
  const told = typeof data === "string" ? readFarewell(data) : undefined;
  throw told ?? new SvcError(
    "unsupported",
    `Cannot ${attempt}: the server does not speak attached sessions`,
    { help: "the server is the older one: update svc there" },
  );
}

/** Reads the first line; the stream then continues after it. Throws where there is no valid line. */
async function readHead(stream: YamuxStream): Promise<Fields> {
  const parts: Uint8Array[] = [];
  for (let size = 0;;) {
    const chunk = await stream.read();
    if (!chunk) throw lost("a stream ends before it begins");
    const end = chunk.indexOf(NEWLINE);
    const part = end < 0 ? chunk : chunk.subarray(0, end);
    size += part.length;
    if (size > MAX_HEAD) throw lost("a stream begins with too much");
    parts.push(part);
    if (end < 0) continue;
    if (end + 1 < chunk.length) stream.unread(chunk.subarray(end + 1));
    const decoder = new TextDecoder();
    const line = parts.map((part) => decoder.decode(part, { stream: true })).join("");
    return Object(JSON.parse(line));
  }
}

export { isLost, lost };
