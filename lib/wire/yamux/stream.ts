/** One stream of a yamux session. */
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../duplex.ts";
import { ChunkQueue } from "../queue.ts";
import { FLAG, type Frame, INITIAL_WINDOW, TYPE, violation } from "./frame.ts";

/** Data bytes in one frame, at most: streams take turns, and buffers stay small. */
export const MAX_DATA = 64 * 1024;

/** What a stream needs from its session. */
export interface StreamHost {
  /** Resolves when there is room for more. */
  send(frame: Frame, data?: Uint8Array): Promise<void>;
  /** Both directions have ended. */
  forget(stream: YamuxStream): void;
  /** Window for a reader that keeps up. */
  readonly maxWindow: number;
  /** True: a window update is sent as soon as the reader has taken everything. */
  readonly promptly: boolean;
}

export class YamuxStream implements Duplex {
  readonly id: number;
  #host: StreamHost;
  #received = new ChunkQueue();
  /**
   * Flags for the next frame: SYN of a stream opened here, ACK of one opened by the other side. A separate
   * frame for ACK would delay a caller's next frame (Nagle's algorithm).
   */
  #opening: number;
  /** Sent before the first bytes. */
  #head: Uint8Array | undefined;
  /** Bytes the other side may still send. */
  #receiveWindow = INITIAL_WINDOW;
  /** Size that the window is refilled to, and that it may grow to. */
  #target = INITIAL_WINDOW;
  #most: number;
  #sendWindow = INITIAL_WINDOW;
  #roomier = Promise.withResolvers<void>();
  #writes: Promise<void> = Promise.resolve();
  #failure: { error: unknown } | undefined;
  #localEnd = false;
  #remoteEnd = false;

  constructor(host: StreamHost, id: number, opening: number, head?: Uint8Array) {
    this.#host = host;
    this.#head = head;
    this.id = id;
    this.#opening = opening;
    this.#most = host.maxWindow;
  }

  /** Lets the window grow to so many bytes while the reader keeps up: for one stream that moves large files. */
  widen(bytes: number): void {
    this.#most = Math.max(this.#most, bytes);
  }

  async read(): Promise<Uint8Array | undefined> {
    const chunk = await this.#received.take();
    if (chunk) this.#refill();
    return chunk;
  }

  write(bytes: Uint8Array): Promise<void> {
    const work = this.#writes.then(() => this.#write(bytes));
    this.#writes = work.catch(() => {/* told to the caller */});
    return work;
  }

  /** Puts back bytes that were read; they are read first again. */
  unread(chunk: Uint8Array): void {
    this.#received.unshift(chunk);
  }

  async #write(data: Uint8Array): Promise<void> {
    const head = this.#head;
    this.#head = undefined;
    const bytes = head ? joined(head, data) : data;
    for (let at = 0; at < bytes.length;) {
      if (this.#failure) throw this.#failure.error;
      if (this.#localEnd) throw ended("it was closed here");
      if (this.#sendWindow === 0) {
        this.#roomier = Promise.withResolvers<void>();
        await this.#roomier.promise;
        continue;
      }
      const part = bytes.subarray(at, at + Math.min(MAX_DATA, this.#sendWindow));
      this.#sendWindow -= part.length;
      at += part.length;
      await this.#send(TYPE.DATA, 0, part.length, part);
    }
  }

  async closeWrite(): Promise<void> {
    if (this.#head) await this.write(new Uint8Array(0));
    await this.#writes;
    if (this.#localEnd || this.#failure) return;
    this.#localEnd = true;
    const sent = this.#send(TYPE.WINDOW, FLAG.FIN, 0);
    this.#settle();
    await sent;
  }

  reset(): void {
    if (this.#failure || this.isOver) return;
    this.#received.drop();
    this.fail(ended("it was reset here"));
    this.#send(TYPE.WINDOW, FLAG.RST, 0).catch(() => {/* the session has ended */});
    this.#host.forget(this);
  }

  /** Both directions have ended in good order. */
  get isOver(): boolean {
    return this.#localEnd && this.#remoteEnd;
  }

  /** For the session: a frame of this stream. */
  frame({ type, flags, length }: Frame): void {
    if (type === TYPE.DATA) {
      if (this.#remoteEnd && length > 0) throw violation("data comes after the end of a stream");
      if (length > this.#receiveWindow) throw violation("a stream sends more than it may");
      this.#receiveWindow -= length;
    } else {
      this.#sendWindow += length;
      // More than anyone can send: such a window is a protocol error.
      if (this.#sendWindow > 0xffffffff) throw violation("a window grows beyond its limit");
      if (length > 0) this.#roomier.resolve();
    }
    if (flags & FLAG.RST) {
      this.fail(ended("the other side reset it"));
      this.#host.forget(this);
    }
  }

  /** For the session: bytes of a data frame. */
  data(part: Uint8Array): void {
    this.#received.push(part);
  }

  /** For the session: nothing more comes. */
  end(): void {
    this.#remoteEnd = true;
    this.#received.end();
    this.#settle();
  }

  /** For the session: the session broke. Bytes that arrived before can still be read. */
  fail(error: unknown): void {
    if (this.#failure) return;
    this.#failure = { error };
    this.#received.fail(error);
    this.#roomier.resolve();
  }

  #settle(): void {
    if (this.isOver) this.#host.forget(this);
  }

  /** Sends a window update once enough was read to be worth a frame. */
  #refill(): void {
    if (this.#remoteEnd || this.#failure) return;
    let room = this.#target - this.#receiveWindow - this.#received.size;
    if (room >= this.#target / 2) {
      // A reader that keeps up gets a larger window, so that latency no longer limits its speed.
      room += Math.max(0, this.#most - this.#target);
      this.#target = Math.max(this.#target, this.#most);
    } else if (!this.#host.promptly || this.#received.size > 0 || room <= 0) return;
    const more = room;
    this.#receiveWindow += more;
    this.#send(TYPE.WINDOW, 0, more).catch(() => {/* told by the next call */});
  }

  #send(type: number, flags: number, length: number, data?: Uint8Array): Promise<void> {
    const opening = this.#opening;
    this.#opening = 0;
    return this.#host.send({ type, flags: flags | opening, stream: this.id, length }, data);
  }
}

function joined(head: Uint8Array, data: Uint8Array): Uint8Array {
  const whole = new Uint8Array(head.length + data.length);
  whole.set(head);
  whole.set(data, head.length);
  return whole;
}

function ended(why: string): SvcError {
  return new SvcError("upstream_failed", `Cannot use the stream: ${why}`, {
    help: "try again; if it stays, see the log of the other side",
  });
}
