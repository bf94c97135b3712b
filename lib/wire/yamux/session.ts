/**
 * yamux, specification version 0: many streams over one connection. Memory is bounded by the windows of
 * its streams; a peer that breaks the protocol ends the session, not the process.
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

/** What carries the session's bytes, in order. */
export interface Link {
  /** Resolves when there is room for more. */
  send(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Idempotent. */
  close(): void;
}

export interface YamuxOptions {
  /** The client's streams have odd numbers, the server's even ones. */
  role: "client" | "server";
  /** A stream that the other side opened; absent: it may open none. */
  onStream?: (stream: YamuxStream) => void;
  /** Streams that the other side may have open at once; further ones are reset. */
  maxStreams?: number;
  /** Bytes of one stream's window, where its reader keeps up. */
  maxWindow?: number;
  /** Milliseconds between pings; the session ends when one is not answered. 0: none are sent. */
  keepAliveMs?: number;
  /**
   * A stream of the other side's is acknowledged by its first frame, not by one of its own: for who answers
   * soon. Two small frames, one after the other, would wait for TCP's delayed acknowledgement in between.
   */
  lateAck?: boolean;
}

/** Frames that are no data (answers to pings, windows) and wait to be sent, at most. */
const MAX_WAITING = 4096;

export class YamuxSession implements Disposable {
  #link: Link;
  #options: Required<Omit<YamuxOptions, "onStream">> & Pick<YamuxOptions, "onStream">;
  #streams = new Map<number, YamuxStream>();
  #theirs = 0;
  #next: number;
  #decoder: FrameDecoder;
  /** Stream of the data that comes in; undefined: it is dropped. */
  #current: { stream: YamuxStream; left: number; fin: boolean } | undefined;
  #sending: Promise<void> = Promise.resolve();
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
      lateAck: false,
      ...options,
    };
    this.#host.maxWindow = Math.max(INITIAL_WINDOW, this.#options.maxWindow);
    this.#next = options.role === "client" ? 1 : 2;
    this.#decoder = new FrameDecoder({
      frame: (frame) => this.#frame(frame),
      data: (part, whole) => this.#data(part, whole),
    });
    const { keepAliveMs } = this.#options;
    if (keepAliveMs > 0) {
      this.#stopPings = every(keepAliveMs, () => {
        if (this.#pings.size > 0) {
          this.#end(lost("the other side no longer answers"), GO_AWAY.INTERNAL);
        } else this.ping().catch(() => {/* the session has ended */});
      });
    }
  }

  /** Settles once: with the reason where the session broke, with undefined where it was closed. */
  get closed(): Promise<Error | undefined> {
    return this.#closed.promise;
  }

  /** Streams open now, from both sides. */
  get streams(): number {
    return this.#streams.size;
  }

  /** A new stream; nothing is sent before its first bytes. Throws `upstream_failed` after the end. */
  open(): YamuxStream {
    if (this.#ended) throw lost("it has ended");
    if (this.#goingAway) throw lost("the other side takes no more streams");
    const id = this.#next;
    this.#next += 2;
    const stream = new YamuxStream(this.#host, id, FLAG.SYN);
    this.#streams.set(id, stream);
    return stream;
  }

  /** Resolves with the answer. */
  ping(): Promise<void> {
    if (this.#ended) return Promise.reject(lost("it has ended"));
    const value = this.#pingValue = (this.#pingValue + 1) >>> 0;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#pings.set(value, { resolve, reject });
    this.#control({ type: TYPE.PING, flags: FLAG.SYN, stream: 0, length: value });
    return promise;
  }

  /** For the link: bytes that came in. Never throws: what is wrong with them ends the session. */
  receive(chunk: Uint8Array): void {
    if (this.#ended) return;
    try {
      this.#decoder.push(chunk);
    } catch (error) {
      const failure = error instanceof Error ? error : violation(String(error));
      this.#end(failure, GO_AWAY.PROTOCOL);
    }
  }

  /** For the link: the connection is gone. */
  lost(why?: string): void {
    this.#end(lost(why));
  }

  /** Asks the other side to open no more streams; those that are open go on. */
  goAway(): void {
    this.#control({ type: TYPE.GO_AWAY, flags: 0, stream: 0, length: GO_AWAY.NORMAL });
  }

  /** Ends the session after what was sent; streams still open break. */
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
  };

  #own(id: number): boolean {
    return id % 2 === (this.#options.role === "client" ? 1 : 0);
  }

  #send(frame: Frame, data?: Uint8Array): Promise<void> {
    if (this.#ended) return Promise.reject(lost("it has ended"));
    if (!data) this.#waiting++;
    if (this.#waiting > MAX_WAITING) {
      this.#end(violation("the other side asks more than it reads"), GO_AWAY.PROTOCOL);
      return Promise.reject(lost("it has ended"));
    }
    const bytes = encodeFrame(frame, data);
    const work = this.#sending.then(() => this.#ended ? undefined : this.#link.send(bytes))
      .finally(() => {
        if (!data) this.#waiting--;
      });
    this.#sending = work.catch((error) => this.#end(error instanceof Error ? error : lost("")));
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
    // Of a stream that has ended here: what was under way is dropped.
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
    if (!this.#options.lateAck) stream.announce();
    onStream(stream);
  }

  #data(part: Uint8Array, whole: number): void {
    const current = this.#current;
    if (!current) return;
    current.left -= part.length;
    // A part must not keep the much larger message that it came in.
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
    this.#link.close();
    const error = reason ?? lost("it was closed");
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
