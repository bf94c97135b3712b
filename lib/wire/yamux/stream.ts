/** One stream of a yamux session. */
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../duplex.ts";
import { ChunkQueue } from "../queue.ts";
import { FLAG, type Frame, INITIAL_WINDOW, TYPE, violation } from "./frame.ts";

/** Bytes of data in one frame, at most: streams take turns, and buffers stay small. */
const MAX_DATA = 64 * 1024;

/** What a stream needs of its session. */
export interface StreamHost {
  /** Resolves when there is room for more. */
  send(frame: Frame, data?: Uint8Array): Promise<void>;
  /** Both directions have ended. */
  forget(stream: YamuxStream): void;
  /** Window that a reader who keeps up is given. */
  readonly maxWindow: number;
}

export class YamuxStream implements Duplex {
  readonly id: number;
  #host: StreamHost;
  #received = new ChunkQueue();
  /** Flags that the next frame carries: SYN of a stream opened here, ACK of one opened there. */
  #opening: number;
  /** Bytes the other side may still send. */
  #receiveWindow = INITIAL_WINDOW;
  /** What the window is filled up to. */
  #target = INITIAL_WINDOW;
  #sendWindow = INITIAL_WINDOW;
  #roomier = Promise.withResolvers<void>();
  #writes: Promise<void> = Promise.resolve();
  #failure: { error: unknown } | undefined;
  #localEnd = false;
  #remoteEnd = false;

  constructor(host: StreamHost, id: number, opening: number) {
    this.#host = host;
    this.id = id;
    this.#opening = opening;
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

  async #write(bytes: Uint8Array): Promise<void> {
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
    await this.#writes;
    if (this.#localEnd || this.#failure) return;
    this.#localEnd = true;
    const sent = this.#send(TYPE.WINDOW, FLAG.FIN, 0);
    this.#settle();
    await sent;
  }

  reset(): void {
    if (this.#failure || this.#localEnd && this.#remoteEnd) return;
    this.fail(ended("it was reset here"));
    this.#send(TYPE.WINDOW, FLAG.RST, 0).catch(() => {/* the session has ended */});
    this.#host.forget(this);
  }

  /** Tells the other side of a stream opened here without waiting for data. */
  announce(): void {
    this.#send(TYPE.WINDOW, 0, 0).catch(() => {/* told by the next call */});
  }

  /** For the session: a frame of this stream. */
  frame({ type, flags, length }: Frame): void {
    if (type === TYPE.DATA) {
      if (this.#remoteEnd && length > 0) throw violation("data comes after the end of a stream");
      if (length > this.#receiveWindow) throw violation("a stream sends more than it may");
      this.#receiveWindow -= length;
    } else {
      this.#sendWindow += length;
      // More than anyone can send: a number beyond 32 bits is not meant.
      if (this.#sendWindow > 0xffffffff) throw violation("a window grows beyond its limit");
      if (length > 0) this.#roomier.resolve();
    }
    if (flags & FLAG.RST) {
      this.fail(ended("the other side reset it"));
      this.#host.forget(this);
    }
  }

  /** For the session: bytes of a data frame; with `last` they were all of it. */
  data(part: Uint8Array): void {
    this.#received.push(part);
  }

  /** For the session: nothing more comes. */
  end(): void {
    this.#remoteEnd = true;
    this.#received.end();
    this.#settle();
  }

  /** For the session: it broke. */
  fail(error: unknown): void {
    if (this.#failure) return;
    this.#failure = { error };
    this.#received.fail(error);
    this.#roomier.resolve();
  }

  #settle(): void {
    if (this.#localEnd && this.#remoteEnd) this.#host.forget(this);
  }

  /** Gives the other side room for what was taken, once that is worth a frame. */
  #refill(): void {
    if (this.#remoteEnd || this.#failure) return;
    const room = this.#target - this.#receiveWindow - this.#received.size;
    if (room < this.#target / 2) return;
    // A reader that keeps up gets a larger window: latency no longer bounds it.
    const more = room + Math.max(0, this.#host.maxWindow - this.#target);
    this.#target = Math.max(this.#target, this.#host.maxWindow);
    this.#receiveWindow += more;
    this.#send(TYPE.WINDOW, 0, more).catch(() => {/* told by the next call */});
  }

  #send(type: number, flags: number, length: number, data?: Uint8Array): Promise<void> {
    const opening = this.#opening;
    this.#opening = 0;
    return this.#host.send({ type, flags: flags | opening, stream: this.id, length }, data);
  }
}

function ended(why: string): SvcError {
  return new SvcError("upstream_failed", `Cannot use the stream: ${why}`, {
    help: "try again; if it stays, see the log of the other side",
  });
}
