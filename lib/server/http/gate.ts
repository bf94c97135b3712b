/**
 * A plain connection as node's server gets it: a stream that passes on what the client sends, one head at a
 * time. Behind the head of a large body it stops. So the body's bytes are still on the connection, and a
 * store may take them from there (lib/base/request_body.ts); otherwise they pass when the body is read.
 */
import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { Duplex } from "node:stream";
import { setImmediate } from "node:timers";
import { descriptorOf, halt } from "../../base/node_hooks.ts";
import type { LentConnection } from "../../base/request_body.ts";
import * as fd from "../../sys/fd.ts";
import type { Peer } from "./peer.ts";
import { breakOnClose } from "./sendfile.ts";

/** Smaller bodies are not worth a hand-over to another thread. */
const WORTH_LENDING = 256 * 1024;
/** Bytes of further requests that are kept while one is answered. */
const AHEAD = 16 * 1024;
const HEAD_END = Buffer.from("\r\n\r\n");
const NOTHING = Buffer.alloc(0);
/** A client that closes its side counts as gone. */
const ENDS = ["end", "error", "close"];

/**
 * heads: no request is in progress; busy: one without a body is; held: the body of one waits here; lent: a
 * store reads the body; open: everything passes; closing: what comes is dropped.
 */
type State = "heads" | "busy" | "held" | "lent" | "open" | "closing";

/** True where the head announces a body. */
export function hasBody({ headers }: IncomingMessage): boolean {
  const length = headers["content-length"];
  return headers["transfer-encoding"] !== undefined || length !== undefined && length !== "0";
}

function lengthOf({ headers }: IncomingMessage): number | undefined {
  return headers["transfer-encoding"] === undefined ? Number(headers["content-length"]) : undefined;
}

/** How many of `bytes` reach to a head's end, which may begin in `tail`; all where it does not come. */
function endOfHead(tail: Buffer, bytes: Buffer): number {
  const seam = Buffer.concat([tail, bytes.subarray(0, 3)]).indexOf(HEAD_END);
  const at = seam >= 0 ? seam - tail.length : bytes.indexOf(HEAD_END);
  return at < 0 && seam < 0 ? bytes.length : at + HEAD_END.length;
}

export class Gate extends Duplex {
  #state: State = "heads";
  /** What came and has not passed. */
  #unread: Buffer;
  /** The last bytes that passed: the end of a head may come in two parts. */
  #tail = NOTHING;
  #passing = false;
  /** The request whose head ended with the bytes that are passing. */
  #begun: IncomingMessage | undefined;
  /** Requests that were read and are not answered. */
  #underWay = 0;
  #resume: (() => void) | undefined;
  #released = false;
  /** A store has taken the body of the current request to its end. */
  taken = false;

  /** `unread`: bytes that were read from the connection before. Add node's listeners in the same turn. */
  constructor(readonly peer: Peer, unread: Buffer = NOTHING) {
    super();
    this.#unread = unread;
    const { socket } = peer;
    socket.on("data", this.#receive);
    for (const event of ENDS) socket.on(event, this.#gone);
    // Node's listeners make this stream flow at the end of this turn.
    if (unread.length > 0) setImmediate(() => this.#advance());
  }

  /** Who wants this stream to wait. */
  #stops = new Set<unknown>();

  readonly #receive = (bytes: Buffer) => {
    if (this.#state === "closing") return;
    this.#unread = this.#unread.length > 0 ? Buffer.concat([this.#unread, bytes]) : bytes;
    this.#advance();
  };

  readonly #gone = () => void this.destroy();

  #advance(): void {
    while (this.#unread.length > 0 && !this.destroyed) {
      if (this.#state === "open") this.#pass(this.#unread.length);
      else if (this.#state === "heads") this.#passHead();
      else break;
    }
    if (this.#state === "busy" && this.#unread.length > AHEAD) this.peer.socket.pause();
  }

  #passHead(): void {
    const { peer } = this;
    if (peer.phase === "idle") peer.phase = "head";
    this.#begun = undefined;
    this.#passing = true;
    this.#pass(endOfHead(this.#tail, this.#unread));
    this.#passing = false;
    const begun = this.#begun as IncomingMessage | undefined;
    if (!begun || this.#state !== "heads") return;
    const length = lengthOf(begun);
    if (!hasBody(begun)) this.#state = "busy";
    else if (length !== undefined && length < WORTH_LENDING) this.#state = "open";
    else this.hold();
  }

  /** Nothing more is read from the connection. */
  hold(): void {
    this.#state = "held";
    this.#resume ??= halt(this.peer.socket);
  }

  #pass(count: number): void {
    const bytes = this.#unread.subarray(0, count);
    this.#unread = this.#unread.subarray(count);
    const last = bytes.length < 3 ? Buffer.concat([this.#tail, bytes]) : bytes;
    this.#tail = Buffer.from(last.subarray(-3));
    if (!this.push(bytes)) this.peer.socket.pause();
  }

  /** Node's parser has read the head of a request. Called in the turn in which it did. */
  begin(message: IncomingMessage): void {
    this.#underWay++;
    if (this.#passing) return void (this.#begun = message);
    // It came behind the body of another, in which nobody looks for heads: what follows waits in this stream.
    if (this.#state === "heads") this.#state = "open";
    this.stop(message);
  }

  /** Nothing passes until `go` was called for everybody who stopped it. */
  stop(who: unknown): void {
    this.#stops.add(who);
    this.pause();
  }

  go(who: unknown): void {
    if (this.#stops.delete(who)) this.resume();
  }

  /** Node resumes whenever a message has room. */
  override resume(): this {
    return this.#stops.size > 0 ? this : super.resume();
  }

  /** The body of `message` is read as a stream, or dropped. */
  open(message: IncomingMessage): void {
    if (this.#state === "held") this.#state = "open";
    else if (this.#state === "lent") this.#close();
    this.#flow();
    this.go(message);
    this.#advance();
  }

  /** `message` has been answered: the next head may pass. */
  next(message: IncomingMessage): void {
    if (this.peer.last) this.#close();
    else if (--this.#underWay === 0) this.#state = "heads";
    this.#flow();
    this.go(message);
    this.#advance();
  }

  #close(): void {
    this.#state = "closing";
    this.#unread = NOTHING;
  }

  #flow(): void {
    const resume = this.#resume;
    this.#resume = undefined;
    if (resume) resume();
    else this.peer.socket.resume();
  }

  /** True while the body of the current request is still on the connection. */
  get lends(): boolean {
    return this.#state === "held";
  }

  /** Lends the connection to who takes the body of `message`. */
  lend(message: IncomingMessage, begin: () => void): LentConnection | undefined {
    const { peer } = this;
    const { socket } = peer;
    if (this.#state !== "held" || socket.destroyed) return undefined;
    const descriptor = descriptorOf(socket);
    if (descriptor === undefined) return undefined;
    this.#state = "lent";
    const forget = breakOnClose(peer, descriptor);
    begin();
    peer.waiting = true;
    return {
      descriptor,
      prefix: this.#takeUnread(),
      length: lengthOf(message),
      moved: (bytes) => {
        peer.moved += bytes;
        peer.received += bytes;
      },
      end: (rest) => {
        peer.waiting = false;
        forget();
        fd.close(descriptor);
        if (rest === "broken") return void socket.destroy();
        if (rest === "unread") return;
        this.taken = true;
        this.#unread = Buffer.from(rest);
      },
    };
  }

  /** What came and has not passed, with what the socket has read ahead. */
  #takeUnread(): Buffer {
    const parts = [this.#unread];
    for (let more: Buffer | null; (more = this.peer.socket.read()) !== null;) parts.push(more);
    this.#unread = NOTHING;
    return parts.length === 1 ? parts[0] : Buffer.concat(parts);
  }

  /** Ends this stream and leaves the connection open. Returns what came and has not passed. */
  release(): Buffer {
    const { socket } = this.peer;
    const resume = this.#resume ?? halt(socket);
    socket.removeListener("data", this.#receive);
    for (const event of ENDS) socket.removeListener(event, this.#gone);
    const unread = this.#takeUnread();
    this.#released = true;
    this.destroy();
    resume();
    return unread;
  }

  override _read(): void {
    if (this.#state === "heads" || this.#state === "open") this.peer.socket.resume();
  }

  override _write(bytes: Buffer, _encoding: string, done: (error?: Error | null) => void): void {
    this.peer.socket.write(bytes, done);
  }

  override _writev(
    parts: { chunk: Buffer }[],
    done: (error?: Error | null) => void,
  ): void {
    const { socket } = this.peer;
    socket.cork();
    parts.forEach(({ chunk }, n) => socket.write(chunk, n === parts.length - 1 ? done : undefined));
    socket.uncork();
  }

  override _final(done: () => void): void {
    this.peer.socket.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    if (!this.#released) this.peer.socket.destroy();
    done(error);
  }
}
