/** Reads a byte stream as heads and bodies. */
import { ChunkedDecoder, ChunkedError } from "../base/chunked.ts";
import { concat } from "../base/collect.ts";
import type { Duplex } from "../wire/duplex.ts";
import { type Framing, HeadError } from "./head.ts";

const EMPTY = new Uint8Array(0);
const CR = 13;
const LF = 10;

/** The stream ended in the middle of a message. */
export class EndedEarly extends Error {}

export class Inlet {
  #stream: Duplex;
  #unread: Uint8Array = EMPTY;
  #reading: Promise<Uint8Array | undefined> | undefined;
  #ended = false;
  /** True once bytes were read. */
  touched = false;

  constructor(stream: Duplex) {
    this.#stream = stream;
  }

  /** Number of bytes that were read and not taken. */
  get held(): number {
    return this.#unread.length;
  }

  /** Takes up to `most` of the bytes that were read. */
  take(most = Infinity): Uint8Array {
    const bytes = this.#unread;
    if (most >= bytes.length) {
      this.#unread = EMPTY;
      return bytes;
    }
    this.#unread = bytes.subarray(most);
    return bytes.subarray(0, most);
  }

  /** Puts back the last bytes that were taken. */
  unread(bytes: Uint8Array): void {
    if (bytes.length > 0) this.#unread = bytes;
  }

  /** Resolves when there are bytes to take; false: the stream has ended. Throws where the stream broke. */
  async fill(): Promise<boolean> {
    if (this.#unread.length > 0) return true;
    if (this.#ended) return false;
    const reading = this.#reading ?? this.#stream.read();
    this.#reading = undefined;
    const bytes = await reading;
    if (!bytes) {
      this.#ended = true;
      return false;
    }
    this.touched = true;
    this.#unread = bytes;
    return true;
  }

  /**
   * Calls `gone` when the other side ends or breaks while nothing is read. The bytes of one read are kept;
   * further bytes wait in the stream.
   */
  watch(gone: () => void): void {
    if (this.#unread.length > 0) return;
    if (this.#ended) return gone();
    this.#reading ??= this.#stream.read();
    this.#reading.then((bytes) => {
      if (!bytes) gone();
    }, gone);
  }

  /**
   * The next head with its empty line; undefined where the stream ends before one begins. Throws
   * {@linkcode HeadError} as soon as the bytes cannot be a valid head. `blank`: an empty line may precede it
   * (RFC 9112 2.2).
   */
  async head(limit: number, { blank = false } = {}): Promise<Uint8Array | undefined> {
    const head = new Collected();
    let start = 0;
    let line = 0;
    while (await this.fill()) {
      let from = head.bytes.length;
      head.append(this.take());
      const { bytes } = head;
      for (let lf; (lf = bytes.indexOf(LF, from)) >= 0; from = line = lf + 1) {
        if (bytes[lf - 1] !== CR) throw new HeadError("a line is not ended by CRLF");
        if (lf - 1 > line) continue;
        if (line > start) {
          if (lf - start >= limit) throw new HeadError("the head is too large", 431);
          this.unread(bytes.slice(lf + 1));
          return bytes.subarray(start, lf + 1);
        }
        if (!blank || start > 0) throw new HeadError("it begins with empty lines");
        start = lf + 1;
      }
      if (bytes.length - start > limit) throw new HeadError("the head is too large", 431);
      const first = bytes[start] ?? CR;
      if (first !== CR && (first < 0x21 || first > 0x7e)) throw new HeadError("this is not HTTP");
    }
    if (head.bytes.length === 0) return undefined;
    throw new EndedEarly("the head is not whole");
  }
}

/** Collects bytes in a buffer that doubles: a sender of single bytes costs no more than others. */
class Collected {
  #room: Uint8Array = EMPTY;
  bytes: Uint8Array = EMPTY;

  append(bytes: Uint8Array): void {
    const size = this.bytes.length;
    if (size === 0) {
      this.bytes = bytes;
      return;
    }
    if (size + bytes.length > this.#room.length) {
      this.#room = new Uint8Array(Math.max(1024, 2 * (size + bytes.length)));
      this.#room.set(this.bytes);
    }
    this.#room.set(bytes, size);
    this.bytes = this.#room.subarray(0, size + bytes.length);
  }
}

/** The body of one message, read piece by piece. */
export class Body {
  #inlet: Inlet;
  #framing: Framing;
  #left: number;
  #decoder = new ChunkedDecoder();
  /** The body has been read to its end. */
  done: boolean;

  constructor(inlet: Inlet, framing: Framing) {
    this.#inlet = inlet;
    this.#framing = framing;
    this.#left = framing.kind === "length" ? framing.length : Infinity;
    this.done = framing.kind === "none" || this.#left === 0;
  }

  /**
   * The part of the body that is here already, perhaps empty. Throws {@linkcode HeadError} for malformed
   * chunks.
   */
  take(): Uint8Array {
    if (this.done || this.#inlet.held === 0) return EMPTY;
    if (this.#framing.kind === "chunked") return this.#takeChunks();
    const bytes = this.#inlet.take(this.#left);
    this.#left -= bytes.length;
    this.done = this.#left === 0;
    return bytes;
  }

  #takeChunks(): Uint8Array {
    const bytes = this.#inlet.take();
    const parts: Uint8Array[] = [];
    try {
      const end = this.#decoder.feed(
        bytes,
        (from, to) => void parts.push(bytes.subarray(from, to)),
      );
      if (end !== undefined) {
        this.done = true;
        this.#inlet.unread(bytes.subarray(end));
      }
    } catch (error) {
      if (error instanceof ChunkedError) throw new HeadError(error.message);
      throw error;
    }
    return parts.length === 1 ? parts[0] : concat(parts);
  }

  /** Waits for more of the body. Throws {@linkcode EndedEarly}. */
  async fill(): Promise<void> {
    if (await this.#inlet.fill()) return;
    if (this.#framing.kind !== "close") throw new EndedEarly("the body is not whole");
    this.done = true;
  }
}
