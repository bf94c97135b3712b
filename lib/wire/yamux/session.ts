/**
 * yamux, specification version 0: many streams over one connection. The streams' windows limit memory. A peer
 * that breaks the protocol ends only the session.
 */
import { every } from "../../base/beat.ts";
import { SvcError } from "../../base/errors.ts";
import {
  encodeFrame,
  FLAG,
  type Frame,
  FrameDecoder,
  GO_AWAY,
  INITIAL_WINDOW,
  TYPE,
  violation,
} from "./frame.ts";
import { YamuxStream } from "./stream.ts";

/** The connection that carries the session's bytes, in order. */
export interface Link {
  /** Sends a frame's header and then its data. Resolves when there is room for more. */
  send(head: Uint8Array<ArrayBuffer>, data?: Uint8Array): Promise<void>;
  /**
   * Closes the connection. `reason`: the error that broke the session; absent after a normal end. Idempotent.
   */
  close(reason?: Error): void;
}

export interface YamuxOptions {
  /** The client's streams have odd numbers, the server's even ones. */
  role: "client" | "server";
  /** Called with each stream that the other side opens; absent: it may open none. */
  onStream?: (stream: YamuxStream) => void;
  /** Streams that the other side may have open at once; further ones are reset. */
  maxStreams?: number;
  /** Window of one stream in bytes while its reader keeps up. */
  maxWindow?: number;
  /**
   * Milliseconds between two checks of the other side. Each check sends a ping; the other side is gone if no
   * bytes came since the last check. 0: no checks.
   */
  keepAliveMs?: number;
  /**
   * Sends a window update as soon as the reader has taken everything. For the side whose peer cannot switch
   * Nagle's algorithm off: without an answer the peer's second small message waits 40 ms.
   */
  promptly?: boolean;
  /** Makes the error for a lost session; absent: {@linkcode lost}. */
  lost?: (why?: string) => SvcError;
}

/** Control frames (ping answers, window updates) that may wait to be sent, at most. */
const MAX_WAITING = 4096;

export class YamuxSession implements Disposable {
  #link: Link;
  #options: Required<Omit<YamuxOptions, "onStream">> & Pick<YamuxOptions, "onStream">;
  /** Bytes came since the last check. */
  #heard = false;
  #streams = new Map<number, YamuxStream>();
  #theirs = 0;
  #next: number;
  #decoder: FrameDecoder;
  /** The stream of the data frame that is arriving; undefined: its data is dropped. */
  #current: { stream: YamuxStream; left: number; fin: boolean } | undefined;
  #sending: Promise<void> = Promise.resolve();
  /** Frames that the link has not taken yet; and how many of them are control frames. */
  #sends = 0;
  #waiting = 0;
  #ended = false;
  #goingAway = false;
  #pings = new Map<number, { resolve(): void; reject(error: unknown): void }>();
  #pingValue = 0;
  #stopPings: (() => void) | undefined;
  #closed = Promise.withResolvers<Error | undefined>();

  constructor(link: Link, options: YamuxOptions) {
    this.#link = link;
    this.#options = {
      maxStreams: 256,
      maxWindow: 1 << 20,
      keepAliveMs: 30_000,
      promptly: false,
      lost,
      ...options,
    };
    this.#host.maxWindow = Math.max(INITIAL_WINDOW, this.#options.maxWindow);
    this.#host.promptly = this.#options.promptly;
    this.#next = options.role === "client" ? 1 : 2;
    this.#decoder = new FrameDecoder({
      frame: (frame) => this.#frame(frame),
      data: (part, whole) => this.#data(part, whole),
    });
    const { keepAliveMs } = this.#options;
    if (keepAliveMs > 0) this.#stopPings = every(keepAliveMs, () => this.#look());
  }

  #look(): void {
    const asked = this.#pings.size > 0;
    if (asked && !this.#heard) {
      return this.#end(this.#options.lost("the other side no longer answers"), GO_AWAY.INTERNAL);
    }
    this.#heard = false;
    if (!asked) this.ping().catch(() => {/* the session has ended */});
  }

  /** Settles once: with the error that broke the session, or with undefined after a normal end. */
  get closed(): Promise<Error | undefined> {
    return this.#closed.promise;
  }

  /** Streams open now, from both sides. */
  get streams(): number {
    return this.#streams.size;
  }

  /**
   * Opens a stream. Nothing is sent before its first bytes; `head` goes before them. Throws `upstream_failed`
   * after the end.
   */
  open(head?: Uint8Array): YamuxStream {
    if (this.#ended) throw this.#options.lost("it has ended");
    if (this.#goingAway) throw this.#options.lost("the other side takes no more streams");
    const id = this.#next;
    this.#next += 2;
    const stream = new YamuxStream(this.#host, id, FLAG.SYN, head);
    this.#streams.set(id, stream);
    return stream;
  }

  /** Resolves when the answer has come. */
  ping(): Promise<void> {
    if (this.#ended) return Promise.reject(this.#options.lost("it has ended"));
    const value = this.#pingValue = (this.#pingValue + 1) >>> 0;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#pings.set(value, { resolve, reject });
    this.#control({ type: TYPE.PING, flags: FLAG.SYN, stream: 0, length: value });
    return promise;
  }

  /** For the link: bytes arrived. Never throws: invalid bytes end the session. */
  receive(chunk: Uint8Array): void {
    if (this.#ended) return;
    this.#heard = true;
    try {
      this.#decoder.push(chunk);
    } catch (error) {
      const failure = error instanceof Error ? error : violation(String(error));
      this.#end(failure, GO_AWAY.PROTOCOL);
    }
  }

  /** For the link: the connection is gone. */
  lost(why?: string): void {
    this.#end(this.#options.lost(why));
  }

  /** Ends the session at once, for this reason. */
  fail(reason: Error): void {
    this.#end(reason);
  }

  /** For the link: the other side has ended the session normally. */
  over(): void {
    this.#end(undefined);
  }

  /** Asks the other side to open no more streams; open streams continue. */
  goAway(): void {
    this.#control({ type: TYPE.GO_AWAY, flags: 0, stream: 0, length: GO_AWAY.NORMAL });
  }

  /** Ends the session after everything that was sent; open streams break. */
  async close(): Promise<void> {
    if (this.#ended) return;
    this.goAway();
    await this.#sending;
    this.#end(undefined);
  }

  [Symbol.dispose](): void {
    this.#end(undefined);
  }

  readonly #host = {
    send: (frame: Frame, data?: Uint8Array) => this.#send(frame, data),
    forget: (stream: YamuxStream) => {
      if (!this.#streams.delete(stream.id)) return;
      if (!this.#own(stream.id)) this.#theirs--;
    },
    maxWindow: INITIAL_WINDOW,
    promptly: false,
  };

  #own(id: number): boolean {
    return id % 2 === (this.#options.role === "client" ? 1 : 0);
  }

  #send(frame: Frame, data?: Uint8Array): Promise<void> {
    if (this.#ended) return Promise.reject(this.#options.lost("it has ended"));
    if (!data) this.#waiting++;
    if (this.#waiting > MAX_WAITING) {
      this.#end(violation("the other side asks more than it reads"), GO_AWAY.PROTOCOL);
      return Promise.reject(this.#options.lost("it has ended"));
    }
    const head = encodeFrame(frame);
    // An idle session sends at once: one more turn of the event loop would be felt when typing.
    const idle = this.#sends++ === 0;
    const work =
      (idle
        ? this.#link.send(head, data)
        : this.#sending.then(() => this.#ended ? undefined : this.#link.send(head, data))).finally(
          () => {
            this.#sends--;
            if (!data) this.#waiting--;
          },
        );
    this.#sending = work.catch((error) =>
      this.#end(error instanceof Error ? error : this.#options.lost())
    );
    return work;
  }

  #control(frame: Frame): void {
    this.#send(frame).catch(() => {/* told by `closed` */});
  }

  #frame(frame: Frame): void {
    if (frame.type === TYPE.PING) return this.#pinged(frame);
    if (frame.type === TYPE.GO_AWAY) {
      this.#goingAway = true;
      if (frame.length !== GO_AWAY.NORMAL) this.lost(`the other side ended it (${frame.length})`);
      return;
    }
    if (frame.flags & FLAG.SYN) this.#accept(frame);
    const stream = this.#streams.get(frame.stream);
    // The stream has ended at this side: data that was in transit is dropped.
    this.#current = undefined;
    if (!stream) return;
    stream.frame(frame);
    const fin = (frame.flags & FLAG.FIN) !== 0;
    if (frame.type === TYPE.DATA && frame.length > 0) {
      this.#current = { stream, left: frame.length, fin };
    } else if (fin) stream.end();
  }

  #accept({ stream: id }: Frame): void {
    if (this.#own(id) || this.#streams.has(id)) throw violation(`stream ${id} is opened twice`);
    const { onStream, maxStreams } = this.#options;
    if (!onStream || this.#goingAway || this.#theirs >= maxStreams) {
      this.#control({ type: TYPE.WINDOW, flags: FLAG.RST, stream: id, length: 0 });
      return;
    }
    const stream = new YamuxStream(this.#host, id, FLAG.ACK);
    this.#streams.set(id, stream);
    this.#theirs++;
    onStream(stream);
  }

  #data(part: Uint8Array, whole: number): void {
    const current = this.#current;
    if (!current) return;
    current.left -= part.length;
    // A small part must not keep the large message that it came in.
    current.stream.data(part.length * 2 < whole ? part.slice() : part);
    if (current.left === 0 && current.fin) current.stream.end();
  }

  #pinged({ flags, length }: Frame): void {
    if (flags & FLAG.SYN) {
      return this.#control({ type: TYPE.PING, flags: FLAG.ACK, stream: 0, length });
    }
    this.#pings.get(length)?.resolve();
    this.#pings.delete(length);
  }

  #end(reason: Error | undefined, code?: number): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stopPings?.();
    if (code !== undefined) {
      const frame = { type: TYPE.GO_AWAY, flags: 0, stream: 0, length: code };
      this.#link.send(encodeFrame(frame)).catch(() => {/* it is gone */});
    }
    this.#link.close(reason);
    const error = reason ?? this.#options.lost("it was closed");
    for (const stream of [...this.#streams.values()]) stream.fail(error);
    for (const { reject } of this.#pings.values()) reject(error);
    this.#streams.clear();
    this.#pings.clear();
    this.#closed.resolve(reason);
  }
}

/** What is thrown of a session whose connection is gone. */
export function lost(why = "the connection was lost"): SvcError {
  return new SvcError("upstream_failed", `Cannot use the session: ${why}`, {
    help: "try again; if it stays, see the log of the other side",
    detail: { session: "lost" },
  });
}

/** True for an error of {@linkcode lost}. */
export function isLost(error: unknown): boolean {
  return error instanceof SvcError && error.detail?.session === "lost";
}
