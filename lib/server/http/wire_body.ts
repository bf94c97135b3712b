/**
 * A request's body on a plain connection, read by us and not by node: as a stream, or by a store that takes
 * over the connection (lib/base/raw_body.ts).
 */
import type { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import { ChunkedDecoder } from "../../base/chunked.ts";
import { type RawSource, setRawBody } from "../../base/raw_body.ts";
import * as fd from "../../sys/fd.ts";
import { BodyQueue } from "./body_queue.ts";
import type { Peer } from "./peer.ts";
import { breakOnClose, descriptorOf } from "./sendfile.ts";

/** Smaller bodies are not worth a hand-over to another thread. */
const WORTH_TAKING = 256 * 1024;
/** How long an unread rest of a body may still arrive, so that the client reads the answer. */
const LINGER_MS = 2000;

interface Handle {
  readStart(): void;
  readStop(): void;
}

/** The socket's own reader, where reading can stop at once and resume. */
function handleOf(socket: Socket): Handle | undefined {
  const { _handle: handle } = socket as unknown as { _handle?: Partial<Handle> };
  return handle?.readStart && handle.readStop ? handle as Handle : undefined;
}

/** True where request bodies of this connection can be read here. */
export function readsBodies(socket: Socket): boolean {
  return Deno.build.os === "linux" && !("encrypted" in socket) && handleOf(socket) !== undefined;
}

/**
 * Stops reading at once: nothing more is taken from the kernel until the result is called. A stream that is
 * only paused still reads ahead.
 */
function halt(socket: Socket): () => void {
  const own = socket as unknown as { _read?: unknown };
  socket.pause();
  own._read = () => {/* not now */};
  handleOf(socket)?.readStop();
  return () => {
    delete own._read;
    if (socket.destroyed) return;
    handleOf(socket)?.readStart();
    socket.resume();
  };
}

export interface WireBodyOptions {
  /** The bytes that came with the head: the start of the body, or all of it and the next request. */
  prefix: Buffer;
  /** Undefined: the body is chunked. */
  length: number | undefined;
  /** Called when the body is first read. */
  begin: () => void;
}

/** Create it in the same turn in which the head arrived. Its user passes on the bytes that the socket reads. */
export class WireBody {
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>>;
  #peer: Peer;
  #prefix: Buffer;
  #length: number | undefined;
  #begin: () => void;
  /** Undefined while the socket is being read. */
  #resume: (() => void) | undefined;
  #queue: BodyQueue;
  #taken = false;
  #decoder: ChunkedDecoder | undefined;
  /** Bytes still to come, for a body of known length. */
  #left: number;
  #rest: Uint8Array | undefined;
  #forget: (() => void) | undefined;
  #dropping = false;

  constructor(peer: Peer, { prefix, length, begin }: WireBodyOptions) {
    this.#peer = peer;
    this.#prefix = prefix;
    this.#length = length;
    this.#left = length ?? 0;
    this.#begin = begin;
    this.#resume = halt(peer.socket);
    if (length === undefined) this.#decoder = new ChunkedDecoder();
    this.#queue = new BodyQueue({
      peer,
      open: () => this.#open(),
      resume: () => peer.socket.resume(),
      cancel: () => {},
    });
    this.stream = this.#queue.stream;
    const small = length !== undefined && length < WORTH_TAKING;
    if (!small) setRawBody(this.stream, () => this.#take());
  }

  /** The bytes behind the body; undefined until the body's end was read. */
  get rest(): Uint8Array | undefined {
    return this.#rest;
  }

  #open(): void {
    this.#begin();
    this.#forget = this.#peer.onClose(() => this.#queue.fail("the connection broke off"));
    if (this.#peer.socket.destroyed) this.#queue.fail("the connection broke off");
    this.#resume?.();
    this.#resume = undefined;
    if (this.#prefix.length > 0 || this.#length === 0) this.receive(this.#prefix);
  }

  /** Takes what the socket read. */
  receive(bytes: Buffer): void {
    if (this.#dropping) return;
    if (this.#rest) {
      this.#rest = concat(this.#rest, bytes);
      return;
    }
    let wanted = true;
    const take = (start: number, end: number) => {
      wanted = this.#queue.push(bytes.subarray(start, end) as Uint8Array<ArrayBuffer>);
    };
    let end: number | undefined;
    try {
      end = this.#decoder ? this.#decoder.feed(bytes, take) : this.#count(bytes, take);
    } catch (error) {
      this.#queue.fail("its chunks are malformed", "body_malformed", error);
      return;
    }
    if (end !== undefined) {
      this.#rest = bytes.subarray(end);
      this.#queue.end();
      // The next request waits until this one is answered.
      this.#peer.socket.pause();
    } else if (!wanted) {
      this.#peer.socket.pause();
    }
  }

  #count(bytes: Uint8Array, take: (start: number, end: number) => void): number | undefined {
    const end = Math.min(bytes.length, this.#left);
    if (end > 0) take(0, end);
    this.#left -= end;
    return this.#left === 0 ? end : undefined;
  }

  #take(): RawSource | undefined {
    const { socket } = this.#peer;
    if (!this.#resume || this.#taken || socket.destroyed) return undefined;
    const descriptor = descriptorOf(socket);
    if (descriptor === undefined) return undefined;
    this.#taken = true;
    const forget = breakOnClose(this.#peer, descriptor);
    this.#begin();
    this.#peer.waiting = true;
    return {
      descriptor,
      prefix: this.#prefix,
      length: this.#length,
      moved: (bytes) => {
        this.#peer.moved += bytes;
        this.#peer.received += bytes;
      },
      end: (rest) => {
        this.#peer.waiting = false;
        this.#rest = rest;
        forget();
        fd.close(descriptor);
      },
    };
  }

  /** The answer was sent and the connection stays open: reading resumes. */
  release(): void {
    this.#forget?.();
    this.#resume?.();
    this.#resume = undefined;
    this.#peer.socket.resume();
  }

  /**
   * The answer was sent before the whole body arrived: reads and drops the rest of the body, then closes the
   * connection. Otherwise a client that is still sending would see a broken connection instead of the answer.
   */
  async linger(): Promise<void> {
    const { socket } = this.#peer;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, LINGER_MS);
      socket.once("close", () => {
        clearTimeout(timer);
        resolve();
      });
      this.#dropping = true;
      this.#queue.fail("nobody wants it");
      this.release();
      socket.end();
    });
    socket.destroy();
  }
}

function concat(a: Uint8Array, b: Uint8Array): Uint8Array {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}
