/**
 * A request's body on a plain connection, read by us and not by node: as a stream, or by a store that takes
 * over the connection (lib/base/request_body.ts).
 */
import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import { ChunkedDecoder } from "../../base/chunked.ts";
import { descriptorOf, halt } from "../../base/node_hooks.ts";
import type { LentConnection, RequestBody } from "../../base/request_body.ts";
import * as fd from "../../sys/fd.ts";
import { BodyQueue } from "./body_queue.ts";
import type { Peer } from "./peer.ts";
import type { Body } from "./request.ts";
import { breakOnClose } from "./sendfile.ts";

/** Smaller bodies are not worth a hand-over to another thread. */
const WORTH_LENDING = 256 * 1024;
/** How long an unread rest of a body may still arrive, so that the client reads the answer. */
const LINGER_MS = 2000;

/** A body that can be taken from its connection. */
class LendableBody extends ReadableStream<Uint8Array<ArrayBuffer>> implements RequestBody {
  constructor(queue: BodyQueue, readonly takeOver: () => LentConnection | undefined) {
    super(queue, { highWaterMark: 0 });
  }
}

/** Takes what `socket` has read and nobody got: a paused socket may hold bytes. */
export function readAhead(socket: Socket): Buffer {
  const parts: Buffer[] = [];
  for (let more: Buffer | null; (more = socket.read()) !== null;) parts.push(more);
  return Buffer.concat(parts);
}

export interface WireBodyOptions {
  /** The bytes that came with the head: the start of the body, or all of it and the next request. */
  prefix: Buffer;
  /** Undefined: the body is chunked. */
  length: number | undefined;
  /** Called when the body is first read. */
  begin: () => void;
}

/**
 * Only for a connection that can be lent (`canLend`). Create it in the same turn in which the head arrived. Its
 * user passes on the bytes that the socket reads.
 */
export class WireBody {
  readonly stream: Body;
  #peer: Peer;
  #prefix: Buffer;
  #length: number | undefined;
  #begin: () => void;
  /** Undefined while the socket is being read. */
  #resume: (() => void) | undefined;
  #queue: BodyQueue;
  #lent = false;
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
    const small = length !== undefined && length < WORTH_LENDING;
    this.stream = small
      ? new ReadableStream(this.#queue, { highWaterMark: 0 })
      : new LendableBody(this.#queue, () => this.#lend());
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

  #lend(): LentConnection | undefined {
    const { socket } = this.#peer;
    if (!this.#resume || this.#lent || socket.destroyed) return undefined;
    const descriptor = descriptorOf(socket);
    if (descriptor === undefined) return undefined;
    this.#lent = true;
    const forget = breakOnClose(this.#peer, descriptor);
    this.#begin();
    this.#peer.waiting = true;
    return {
      descriptor,
      prefix: Buffer.concat([this.#prefix, readAhead(socket)]),
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
