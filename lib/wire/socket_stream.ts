/**
 * One byte stream on one WebSocket. Binary messages are its bytes; an empty one ends that direction. Text
 * messages are JSON: `{"ack":n}` for n bytes that were taken (0 says that one is still there), and
 * `{"error":{code,detail,help}}` before a close that is a failure. Close code 1000 is the end of both
 * directions, 4000 a failure with a short reason.
 *
 * A WebSocket does not make its sender wait, so a sender has at most `STREAM_WINDOW` bytes on the way that
 * were not acknowledged: neither side keeps more than that of a direction, however slow its reader is.
 */
import { CATALOGUE, type ErrorCode, SvcError } from "../base/errors.ts";
import type { Duplex } from "./duplex.ts";

/** Bytes of one direction that may be on the way. */
export const STREAM_WINDOW = 1 << 20;

const FAILED = 4000;

/** Bytes of one message at most: what is sent in one piece waits in one piece. */
const MAX_MESSAGE = 64 * 1024;
/** Messages up to this size are gathered where they wait: each by itself costs more than it carries. */
const SMALL = 4 * 1024;
const GATHERED = 16 * 1024;
/** Messages sent before the socket must have taken them all: small ones too have their cost there. */
const BURST = 1024;
const POLL_MS = 2;
/** Signs of life without one of the other side's. */
const PATIENCE = 3;
const MAX_CONTROL = 16 * 1024;
/** Bytes of a close frame's reason (RFC 6455, section 5.5). */
const MAX_REASON = 123;

export interface SocketStreamOptions {
  /** What broke, where the other side did not tell: in the words of whoever uses the stream. */
  lost: (why: string) => SvcError;
  /** What the other side is told where the stream is reset for a reason; absent: nothing but that. */
  told?: (why: unknown) => SvcError;
  /** A sign of life is sent this often; a side that gave none for four times as long is gone. 0: never. */
  beatMs?: number;
  /**
   * What was taken is acknowledged as soon as nothing more waits. For the side whose peer cannot switch
   * Nagle's algorithm off: its second small message waits 40 ms for an answer to the first.
   */
  promptly?: boolean;
}

const encoder = new TextEncoder();

/** As much of the text as a close frame takes. */
function shortReason(text: string): string {
  let length = 0;
  let short = "";
  for (const letter of text) {
    length += encoder.encode(letter).length;
    if (length > MAX_REASON) break;
    short += letter;
  }
  return short;
}

/** What the other side tells, if it is an error at all. A code that only a newer svc has is a failure there. */
function toldError(told: unknown): SvcError | undefined {
  if (typeof told !== "object" || told === null) return undefined;
  const { code, detail, help } = told as Record<string, unknown>;
  if (typeof code !== "string" || typeof detail !== "string") return undefined;
  const known = Object.hasOwn(CATALOGUE, code) ? code as ErrorCode : "upstream_failed";
  return new SvcError(known, detail, typeof help === "string" ? { help } : {});
}

/** The owner gives it the socket once that is open, and every message and the close that come. */
export class SocketStream implements Duplex {
  readonly #lost: SocketStreamOptions["lost"];
  readonly #told: SocketStreamOptions["told"];
  readonly #beatMs: number;
  readonly #promptly: boolean;
  #socket: WebSocket | undefined;
  #waiting: Uint8Array[] = [];
  /** Where the last of those that wait has room for more. */
  #gathering: { buffer: Uint8Array; used: number } | undefined;
  #arrival = Promise.withResolvers<void>();
  /** Received and not acknowledged. */
  #owed = 0;
  /** Taken by the reader and not acknowledged. */
  #taken = 0;
  /** Sent and not acknowledged. */
  #sent = 0;
  #burst = 0;
  #room = Promise.withResolvers<void>();
  #writes: Promise<void> = Promise.resolve();
  #localEnd = false;
  #remoteEnd = false;
  #failure: { error: unknown } | undefined;
  /** What the other side is told where the socket was not open in time. */
  #farewell: SvcError | undefined;
  /** Own signs of life since the last message of the other side: unlike time, they stand still with this side. */
  #unheard = 0;
  #timer: ReturnType<typeof setInterval> | undefined;
  readonly #closed = Promise.withResolvers<unknown>();

  constructor({ lost, told, beatMs = 30_000, promptly = false }: SocketStreamOptions) {
    this.#lost = lost;
    this.#told = told;
    this.#beatMs = beatMs;
    this.#promptly = promptly;
  }

  /** Resolves when nothing is sent any more; what was received can still be read. */
  get closed(): Promise<unknown> {
    return this.#closed.promise;
  }

  get #isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  /** For the owner: the socket is open. */
  attach(socket: WebSocket): void {
    this.#socket = socket;
    if (this.#farewell) return this.#tell(this.#farewell);
    if (this.#failure) return this.#hangUp("reset");
    if (this.#beatMs > 0) this.#timer = setInterval(() => this.#beat(), this.#beatMs);
  }

  #beat(): void {
    if (this.#unheard++ === PATIENCE) {
      this.fail(this.#lost("the other side no longer answers"));
    } else this.#acknowledge();
  }

  /** For the owner: a message that came in. Never throws: what is wrong with it ends the stream. */
  receive(data: Uint8Array | string): void {
    if (this.#failure) return;
    this.#unheard = 0;
    if (typeof data === "string") return this.#control(data);
    if (this.#remoteEnd) return this.#violated("bytes after the end");
    if (data.length === 0) {
      this.#remoteEnd = true;
      this.#arrival.resolve();
      return this.#settle();
    }
    this.#owed += data.length;
    if (this.#owed > STREAM_WINDOW) return this.#violated("more than it may send");
    this.#keep(data);
    this.#arrival.resolve();
  }

  #keep(data: Uint8Array): void {
    if (data.length > SMALL || this.#waiting.length === 0) {
      this.#gathering = undefined;
      this.#waiting.push(data);
      return;
    }
    if (!this.#gathering || this.#gathering.used + data.length > GATHERED) {
      this.#gathering = { buffer: new Uint8Array(GATHERED), used: 0 };
      this.#waiting.push(this.#gathering.buffer.subarray(0, 0));
    }
    const { buffer, used } = this.#gathering;
    buffer.set(data, used);
    this.#gathering.used += data.length;
    this.#waiting[this.#waiting.length - 1] = buffer.subarray(0, this.#gathering.used);
  }

  #control(text: string): void {
    let message: { ack?: unknown; error?: unknown } | undefined;
    try {
      if (text.length <= MAX_CONTROL) message = Object(JSON.parse(text));
    } catch {
      // told below
    }
    const { ack, error } = message ?? {};
    if (Number.isSafeInteger(ack) && ack as number >= 0 && ack as number <= this.#sent) {
      this.#sent -= ack as number;
      return this.#room.resolve();
    }
    const told = toldError(error);
    if (!told) return this.#violated("a message that is none of the stream's");
    this.#hangUp("told");
    this.#break(told);
  }

  #violated(what: string): void {
    this.fail(this.#lost(`the other side sent ${what}`));
  }

  /** For the owner: the socket has closed. */
  lost({ code, reason }: { code: number; reason: string }): void {
    if (code === 1000 && this.#remoteEnd) return this.#over();
    this.#break(this.#lost(reason || "the connection was lost"));
  }

  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const chunk = this.#waiting.shift();
      if (chunk) {
        const last = this.#waiting.length === 0;
        if (last) this.#gathering = undefined;
        this.#taken += chunk.length;
        if (this.#taken >= STREAM_WINDOW / 4 || last && this.#promptly) this.#acknowledge();
        return chunk;
      }
      if (this.#remoteEnd) return undefined;
      if (this.#failure) throw this.#failure.error;
      this.#arrival = Promise.withResolvers();
      await this.#arrival.promise;
    }
  }

  #acknowledge(): void {
    const ack = this.#taken;
    this.#taken = 0;
    this.#owed -= ack;
    // A side that sends and does not read: what it is told would pile up here.
    if ((this.#socket?.bufferedAmount ?? 0) > 4 * STREAM_WINDOW) {
      return this.fail(this.#lost("the other side does not read"));
    }
    this.#say({ ack });
  }

  #say(message: unknown): void {
    if (this.#isOpen) this.#socket!.send(JSON.stringify(message));
  }

  write(bytes: Uint8Array): Promise<void> {
    const work = this.#writes.then(() => this.#write(bytes));
    this.#writes = work.catch(() => {/* told to the caller */});
    return work;
  }

  async #write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const part = bytes.subarray(at, at + MAX_MESSAGE) as Uint8Array<ArrayBuffer>;
      await this.#roomFor(part.length);
      this.#sent += part.length;
      this.#burst++;
      at += part.length;
      this.#socket!.send(part);
    }
  }

  /** Throws where nothing can be sent any more. */
  async #roomFor(bytes: number): Promise<void> {
    for (;;) {
      if (this.#failure) throw this.#failure.error;
      if (this.#localEnd) throw this.#lost("its end was written");
      if (!this.#isOpen) throw this.#lost("the connection was lost");
      if (this.#sent + bytes > STREAM_WINDOW) {
        this.#room = Promise.withResolvers();
        await this.#room.promise;
      } else if (this.#burst >= BURST && this.#socket!.bufferedAmount > 0) {
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      } else break;
    }
    if (this.#burst >= BURST) this.#burst = 0;
  }

  async closeWrite(): Promise<void> {
    await this.#writes;
    if (this.#localEnd || this.#failure) return;
    this.#localEnd = true;
    if (this.#isOpen) this.#socket!.send(new Uint8Array(0));
    this.#settle();
  }

  #settle(): void {
    if (!this.#localEnd || !this.#remoteEnd) return;
    this.#socket!.close(1000);
    this.#finish();
  }

  /** Ends both directions in order, whether or not the other side has ended its own. */
  end(): void {
    if (this.#failure) return;
    if (this.#isOpen) {
      if (!this.#localEnd) this.#socket!.send(new Uint8Array(0));
      this.#socket!.close(1000);
    }
    this.#over();
  }

  /** In good order, though nothing more can be written. */
  #over(): void {
    this.#closed.resolve(undefined);
    this.#break(this.#lost("it has ended"));
  }

  /** Tells the other side why, and ends both directions. */
  fail(error: SvcError): void {
    if (this.#failure) return;
    this.#farewell = error;
    this.#tell(error);
    this.#break(error);
  }

  #tell({ code, message: detail, help }: SvcError): void {
    this.#say({ error: { code, detail, help } });
    this.#hangUp(`${code}: ${detail}`);
  }

  reset(why?: unknown): void {
    this.#waiting = [];
    if (this.#failure) return;
    if (why !== undefined && this.#told) return this.fail(this.#told(why));
    this.#hangUp("reset");
    this.#break(this.#lost("it was reset here"));
  }

  #hangUp(reason: string): void {
    if (this.#isOpen) this.#socket!.close(FAILED, shortReason(reason));
  }

  /** What was received can still be read; then it throws, unless the other side had ended. */
  #break(error: unknown): void {
    this.#failure ??= { error };
    this.#finish();
    this.#arrival.resolve();
    this.#room.resolve();
  }

  #finish(): void {
    clearInterval(this.#timer);
    this.#closed.resolve(this.#failure?.error);
  }
}
