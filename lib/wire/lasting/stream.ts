/**
 * A byte stream that outlives its connections. Both ends keep what the other has not acknowledged. On the next
 * connection each end tells how much it has received, and the other goes on from there: nothing is lost, nothing
 * comes twice, and who reads and writes the stream only notices a pause. So files that are open over a lasting
 * stream stay open, also those that have no name any more, and a request is never repeated.
 *
 * On a connection each end first sends 8 bytes: how many bytes of the stream it has received so far. Then frames:
 * a byte with the kind and 8 bytes with a number.
 *
 * | kind | number | what follows |
 * |---|---|---|
 * | DATA | length | so many bytes of the stream |
 * | TAKEN | how many bytes the reader has taken since the stream began | nothing |
 * | END | 0 | nothing: this direction has ended |
 *
 * A sender is at most {@linkcode WINDOW} bytes ahead of the reader, which bounds the memory of both ends.
 */
import { Buffer } from "node:buffer";
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../duplex.ts";
import { ChunkQueue } from "../queue.ts";
import { ByteReader } from "./reader.ts";

/** Bytes that a sender may be ahead of the reader: a round trip of 50 ms at 1 Gbit/s has 6 MB. */
export const WINDOW = 8 << 20;
/** The reader tells what it has taken whenever it has taken so much. */
const TELL = 256 * 1024;
/** Frames that are sent together, in bytes. */
const BATCH = 64 * 1024;

const KIND = { DATA: 0, TAKEN: 1, END: 2 } as const;
const HEAD = 9;

function frame(kind: number, number: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEAD);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, kind);
  view.setBigUint64(1, BigInt(number));
  return bytes;
}

function broken(why: string): SvcError {
  return new SvcError("upstream_failed", `Cannot continue the stream: ${why}`, {
    help: "check that both sides are svc of about the same version",
  });
}

/** How a stream goes on in another process; bytes as base64. */
export interface LastingState {
  from: number;
  theirTaken: number;
  kept: string;
  taken: number;
  unread: string;
}

/** The stream goes on in another process: nobody reads it here any more. */
export class StreamFrozen extends Error {}

const toText = (chunks: readonly Uint8Array[]) => Buffer.concat(chunks).toString("base64");
const toBytes = (text: string) => Uint8Array.from(Buffer.from(text, "base64"));

export class LastingStream implements Duplex {
  /** Sent, or to be sent, and perhaps not received. `#from` is the stream's offset of the first. */
  #kept: Uint8Array[] = [];
  #from = 0;
  /** Offset up to which the other side's reader has taken the bytes, as far as it was told. */
  #theirTaken = 0;
  /** Offset after everything that was written. */
  #written = 0;
  #ended = false;
  /** Bytes that came, and those that the reader has taken; the latter as they were told. */
  #received = 0;
  #taken = 0;
  #told = 0;
  #inbox = new ChunkQueue();
  #failure: { error: unknown } | undefined;
  #closed = Promise.withResolvers<unknown>();
  /** Resolves when a writer may go on. */
  #room = Promise.withResolvers<void>();
  /** Resolves when there is something to send. */
  #work = Promise.withResolvers<void>();
  #connection: Duplex | undefined;

  #frozen: Uint8Array[] | undefined;

  /** `state`: of the process before. */
  constructor(state?: LastingState) {
    if (!state) return;
    const [kept, unread] = [state.kept, state.unread].map(toBytes);
    this.#from = state.from;
    this.#theirTaken = state.theirTaken;
    this.#written = state.from + kept.length;
    if (kept.length > 0) this.#kept.push(kept);
    this.#taken = this.#told = state.taken;
    this.#received = state.taken + unread.length;
    if (unread.length > 0) this.#inbox.push(unread);
  }

  /** Ends the reading, with {@linkcode StreamFrozen}; what is still written is part of {@linkcode state}. */
  freeze(): void {
    this.#frozen = this.#inbox.takeAll();
    this.#inbox.fail(new StreamFrozen("the stream goes on elsewhere"));
    this.#connection?.reset();
    this.#connection = undefined;
    this.#room.resolve();
    this.#work.resolve();
  }

  /** Of a frozen stream that nobody writes to any more; undefined where it has ended or failed. */
  get state(): LastingState | undefined {
    if (!this.#frozen || this.#ended || this.#failure) return undefined;
    return {
      ...{ from: this.#from, theirTaken: this.#theirTaken, kept: toText(this.#kept) },
      ...{ taken: this.#taken, unread: toText(this.#frozen) },
    };
  }

  /** Bytes that came so far. */
  get received(): number {
    return this.#received;
  }

  get closed(): Promise<unknown> {
    return this.#closed.promise;
  }

  async read(): Promise<Uint8Array | undefined> {
    const chunk = await this.#inbox.take();
    if (!chunk) return undefined;
    this.#taken += chunk.length;
    if (this.#taken - this.#told >= TELL) this.#work.resolve();
    return chunk;
  }

  async write(bytes: Uint8Array): Promise<void> {
    this.#check();
    if (this.#ended) throw broken("its end was written");
    if (bytes.length === 0) return;
    this.#kept.push(bytes);
    this.#written += bytes.length;
    this.#work.resolve();
    while (this.#written - this.#theirTaken > WINDOW && !this.#frozen) {
      this.#room = Promise.withResolvers();
      await this.#room.promise;
      this.#check();
    }
  }

  closeWrite(): Promise<void> {
    this.#ended = true;
    this.#work.resolve();
    return Promise.resolve();
  }

  reset(why?: unknown): void {
    if (this.#failure) return;
    this.#failure = { error: why ?? broken("it was closed") };
    this.#inbox.drop();
    this.#inbox.fail(this.#failure.error);
    this.#room.resolve();
    this.#work.resolve();
    this.#connection?.reset(why);
    this.#closed.resolve(this.#failure.error);
  }

  #check(): void {
    if (this.#failure) throw this.#failure.error;
  }

  /**
   * Uses a connection until it is lost, or the stream is reset: then this throws. The next connection goes on. An
   * earlier connection is closed. What breaks the protocol resets the lasting stream.
   */
  async carry(connection: Duplex): Promise<never> {
    this.#check();
    if (this.#frozen) throw broken("it goes on elsewhere");
    this.#connection?.reset();
    this.#connection = connection;
    let over = false;
    try {
      const first = new Uint8Array(8);
      new DataView(first.buffer).setBigUint64(0, BigInt(this.#received));
      await connection.write(first);
      const reader = new ByteReader(connection);
      const at = await reader.number();
      if (this.#connection !== connection) throw broken("another connection has taken over");
      if (at < this.#from || at > this.#written) throw this.#violation("a wrong offset");
      this.#release(at);
      const sending = this.#send(connection, at, () => over);
      // A failure to send also ends the reading: the connection is lost.
      sending.catch(() => connection.reset());
      await Promise.all([this.#receive(reader, connection), sending]);
      throw broken("the connection has ended");
    } finally {
      over = true;
      this.#work.resolve();
      connection.reset();
      if (this.#connection === connection) this.#connection = undefined;
    }
  }

  /** The other side has everything before `at`. */
  #release(at: number): void {
    while (this.#kept.length > 0 && this.#from + this.#kept[0].length <= at) {
      this.#from += this.#kept.shift()!.length;
    }
    if (at <= this.#from) return;
    this.#kept[0] = this.#kept[0].subarray(at - this.#from);
    this.#from = at;
  }

  /** The other side's reader has taken everything before `at`. */
  #give(at: number): void {
    if (at > this.#written) throw this.#violation("that it took what was not sent");
    this.#release(at);
    if (at <= this.#theirTaken) return;
    this.#theirTaken = at;
    this.#work.resolve();
    if (this.#written - at <= WINDOW) this.#room.resolve();
  }

  async #send(connection: Duplex, at: number, over: () => boolean): Promise<void> {
    let [begun, end] = [false, false];
    while (!over()) {
      this.#check();
      // Whoever still waits for earlier work looks again: its connection may be over.
      this.#work.resolve();
      this.#work = Promise.withResolvers();
      if (!begun || this.#taken - this.#told >= TELL) {
        // What the last connection told may be lost.
        begun = true;
        this.#told = this.#taken;
        await connection.write(frame(KIND.TAKEN, this.#taken));
        continue;
      }
      const next = this.#after(at);
      if (next) {
        at += next.length;
        await connection.write(joined(frame(KIND.DATA, next.length), next));
        continue;
      }
      if (this.#ended && !end && at === this.#written) {
        end = true;
        await connection.write(frame(KIND.END, 0));
        continue;
      }
      await this.#work.promise;
    }
  }

  /** Bytes from an offset of the stream on that the window has room for. */
  #after(at: number): Uint8Array | undefined {
    const most = Math.min(BATCH, this.#theirTaken + WINDOW - at);
    if (most <= 0) return undefined;
    let from = this.#from;
    for (const chunk of this.#kept) {
      if (at < from + chunk.length) return chunk.subarray(at - from, at - from + most);
      from += chunk.length;
    }
    return undefined;
  }

  async #receive(reader: ByteReader, connection: Duplex): Promise<void> {
    for (;;) {
      const kind = await reader.byte();
      const number = await reader.number();
      if (this.#connection !== connection) throw broken("another connection has taken over");
      if (kind === KIND.TAKEN) this.#give(number);
      else if (kind === KIND.END) this.#inbox.end();
      else if (kind === KIND.DATA) await this.#data(reader, number, connection);
      else throw this.#violation(`a frame of kind ${kind}`);
    }
  }

  async #data(reader: ByteReader, length: number, connection: Duplex): Promise<void> {
    if (this.#received + length - this.#taken > WINDOW) {
      throw this.#violation("more than the window has room for");
    }
    for (let left = length; left > 0;) {
      const part = await reader.some(left);
      if (this.#connection !== connection) throw broken("another connection has taken over");
      left -= part.length;
      this.#received += part.length;
      this.#inbox.push(part);
    }
  }

  #violation(what: string): SvcError {
    const error = broken(`the other side sent ${what}`);
    this.reset(error);
    return error;
  }
}

function joined(head: Uint8Array, data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(head.length + data.length);
  bytes.set(head);
  bytes.set(data, head.length);
  return bytes;
}
