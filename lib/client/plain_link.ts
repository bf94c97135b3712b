/**
 * A WebSocket of the server's (RFC 6455) on a TCP connection of our own, as the link of a session. Deno's
 * takes longer to load than a short build takes, and cannot switch Nagle's algorithm off.
 */
import type { Link } from "../wire/yamux/session.ts";

export interface PlainLinkOptions {
  /** `http:`. */
  url: URL;
  headers: Readonly<Record<string, string>>;
  onMessage: (data: Uint8Array<ArrayBuffer>) => void;
  /** Once, however it ended. */
  onClose: () => void;
  signal?: AbortSignal;
}

/** Bytes of an answer's head, at most. */
const MAX_HEAD = 16 * 1024;
const READ = 64 * 1024;
/** Bytes that may wait to be written before more is taken. */
const HIGH_WATER = 1 << 20;
/** Of frames up to this size as many are written together as there are. */
const GATHERED = 64 * 1024;

const OP = { CONTINUATION: 0, BINARY: 2, CLOSE: 8, PING: 9, PONG: 10 } as const;
const FIN = 0x80;
const MASKED = 0x80;
const NORMAL = new Uint8Array([0x03, 0xe8]);
/** Bytes of what a control frame holds, at most (section 5.5). */
const MAX_CONTROL = 125;

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const encoder = new TextEncoder();

const broken = (why: string) => new Error(`the WebSocket broke: ${why}`);

/** What the server has to answer to a key (section 4.2.2). */
async function acceptOf(key: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-1", encoder.encode(key + GUID));
  return new Uint8Array(digest).toBase64();
}

/** A frame of the client's: always masked (section 5.3), and with what it holds where words begin. */
function frameOf(op: number, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const { length } = data;
  const extended = length < 126 ? 0 : length < 0x10000 ? 2 : 8;
  const head = 2 + extended + 4;
  const start = -head & 3;
  const at = start + head;
  const words = new Uint32Array((at + length + 3) >> 2);
  const bytes = new Uint8Array(words.buffer);
  const view = new DataView(words.buffer);
  bytes[start] = FIN | op;
  bytes[start + 1] = MASKED | (extended === 0 ? length : extended === 2 ? 126 : 127);
  if (extended === 2) view.setUint16(start + 2, length);
  if (extended === 8) view.setBigUint64(start + 2, BigInt(length));
  bytes.set(data, at);
  const [mask] = crypto.getRandomValues(new Uint32Array(1));
  words[(at >> 2) - 1] = mask;
  for (let word = at >> 2; word < words.length; word++) words[word] ^= mask;
  return bytes.subarray(start, at + length);
}

/** Cuts what the server sends into frames; what binary ones hold goes on as it comes. */
class Frames {
  #head = new Uint8Array(10);
  #have = 0;
  #op = -1;
  /** Of a message that began: whether its frames go on. */
  #open = false;
  #left = 0;
  #control: number[] = [];

  constructor(
    readonly onData: (part: Uint8Array<ArrayBuffer>) => void,
    readonly onControl: (op: number, data: Uint8Array) => void,
  ) {}

  /** Throws for what is not of the protocol. */
  push(chunk: Uint8Array<ArrayBuffer>): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#op < 0) {
        this.#head[this.#have++] = chunk[at++];
        this.#begin();
        continue;
      }
      const part = chunk.subarray(at, at + this.#left);
      at += part.length;
      this.#left -= part.length;
      if (this.#op < OP.CLOSE) this.onData(part);
      else this.#control.push(...part);
      this.#end();
    }
  }

  #begin(): void {
    if (this.#have < 2) return;
    const [first, second] = this.#head;
    const short = second & 0x7f;
    const extended = short < 126 ? 0 : short === 126 ? 2 : 8;
    if (this.#have < 2 + extended) return;
    const view = new DataView(this.#head.buffer);
    this.#left = extended === 0
      ? short
      : extended === 2
      ? view.getUint16(2)
      : Number(view.getBigUint64(2));
    this.#have = 0;
    this.#op = first & 0xf;
    const final = (first & FIN) !== 0;
    if ((first & 0x70) !== 0 || (second & MASKED) !== 0) {
      throw broken("a frame is not the server's");
    }
    if (this.#op >= OP.CLOSE) {
      if (!final || this.#left > MAX_CONTROL) throw broken("a control frame is too long");
    } else {
      const goesOn = this.#op === OP.CONTINUATION;
      if (goesOn !== this.#open || !goesOn && this.#op !== OP.BINARY) {
        throw broken("a message is not binary");
      }
      this.#open = !final;
    }
    this.#end();
  }

  #end(): void {
    if (this.#left > 0) return;
    const op = this.#op;
    this.#op = -1;
    if (op >= OP.CLOSE) this.onControl(op, new Uint8Array(this.#control.splice(0)));
  }
}

class PlainLink implements Link {
  #conn: Deno.TcpConn;
  #options: PlainLinkOptions;
  #frames = new Frames(
    (part) => this.#options.onMessage(part),
    (op, data) => this.#control(op, data),
  );
  #waiting: Uint8Array<ArrayBuffer>[] = [];
  #size = 0;
  #room = Promise.withResolvers<void>();
  #writing: Promise<void> | undefined;
  #closing = false;
  #ended = false;

  constructor(conn: Deno.TcpConn, options: PlainLinkOptions) {
    this.#conn = conn;
    this.#options = options;
  }

  /** Until the connection ends; `rest` came with the answer's head. */
  async read(rest: Uint8Array<ArrayBuffer>): Promise<void> {
    const buffer = new Uint8Array(READ);
    try {
      this.#frames.push(rest);
      while (!this.#ended) {
        const size = await this.#conn.read(buffer);
        if (size === null) break;
        // Parts of it are kept by who reads them.
        this.#frames.push(buffer.slice(0, size));
      }
    } catch {
      // Told as the end.
    } finally {
      this.#end();
    }
  }

  async send(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    if (this.#closing || this.#ended) throw broken("it was closed");
    this.#put(frameOf(OP.BINARY, bytes));
    while (this.#size > HIGH_WATER && !this.#ended) await this.#room.promise;
    if (this.#ended) throw broken("it was closed");
  }

  close(): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#put(frameOf(OP.CLOSE, NORMAL));
    this.#writing?.finally(() => this.#end());
  }

  #put(frame: Uint8Array<ArrayBuffer>): void {
    if (this.#ended) return;
    this.#waiting.push(frame);
    this.#size += frame.length;
    this.#writing ??= this.#write();
  }

  /** The first frame is on its way when this returns. */
  async #write(): Promise<void> {
    try {
      for (let frame = this.#next(); frame; frame = this.#next()) {
        for (let at = 0; at < frame.length;) at += await this.#conn.write(frame.subarray(at));
        this.#size -= frame.length;
        this.#room.resolve();
        this.#room = Promise.withResolvers<void>();
      }
    } catch {
      this.#end();
    } finally {
      this.#writing = undefined;
    }
  }

  /** Small frames that wait together are one. */
  #next(): Uint8Array<ArrayBuffer> | undefined {
    const first = this.#waiting.shift();
    const second = this.#waiting.at(0);
    if (!first || !second || first.length + second.length > GATHERED) return first;
    const gathered = new Uint8Array(GATHERED);
    gathered.set(first);
    let used = first.length;
    for (let next = second; next && used + next.length <= GATHERED; next = this.#waiting[0]) {
      gathered.set(next, used);
      used += next.length;
      this.#waiting.shift();
    }
    return gathered.subarray(0, used);
  }

  #control(op: number, data: Uint8Array): void {
    if (op === OP.PING) this.#put(frameOf(OP.PONG, data));
    if (op === OP.CLOSE) this.close();
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#closing = true;
    this.#room.resolve();
    this.#conn.close();
    this.#options.onClose();
  }
}

/** The answer's head, and what came behind it. */
async function headOf(
  conn: Deno.TcpConn,
): Promise<{ head: string; rest: Uint8Array<ArrayBuffer> }> {
  let came = new Uint8Array(0);
  const buffer = new Uint8Array(MAX_HEAD);
  while (came.length < MAX_HEAD) {
    const size = await conn.read(buffer);
    if (size === null) break;
    const joined = new Uint8Array(came.length + size);
    joined.set(came);
    joined.set(buffer.subarray(0, size), came.length);
    came = joined;
    const text = new TextDecoder("latin1").decode(came);
    const end = text.indexOf("\r\n\r\n");
    if (end >= 0) return { head: text.slice(0, end), rest: came.slice(end + 4) };
  }
  throw broken("there is no answer");
}

/** Throws for whatever stands in the way: what it is, Deno's own WebSocket has to find out. */
export async function openPlainLink(options: PlainLinkOptions): Promise<Link> {
  const { url, headers, signal } = options;
  const key = crypto.getRandomValues(new Uint8Array(16)).toBase64();
  const accept = acceptOf(key);
  const conn = await Deno.connect({
    hostname: url.hostname.replace(/^\[|\]$/g, ""),
    port: Number(url.port || 80),
  });
  const abort = () => conn.close();
  try {
    signal?.throwIfAborted();
    signal?.addEventListener("abort", abort, { once: true });
    conn.setNoDelay(true);
    const lines = Object.entries({
      ...headers,
      host: url.host,
      upgrade: "websocket",
      connection: "Upgrade",
      "sec-websocket-key": key,
      "sec-websocket-version": "13",
    }).map(([name, value]) => {
      if (/[\r\n\0]/.test(value)) throw broken(`${name} is no header`);
      return `${name}: ${value}\r\n`;
    });
    const question = encoder.encode(
      `GET ${url.pathname}${url.search} HTTP/1.1\r\n${lines.join("")}\r\n`,
    );
    for (let at = 0; at < question.length;) at += await conn.write(question.subarray(at));
    const { head, rest } = await headOf(conn);
    const [status, ...fields] = head.split("\r\n");
    const expected = await accept;
    const answered = fields.some((field) => {
      const [name, value = ""] = field.split(/:(.*)/s);
      return name.toLowerCase() === "sec-websocket-accept" && value.trim() === expected;
    });
    if (!/^HTTP\/1\.1 101\b/.test(status) || !answered) throw broken("it was refused");
    const link = new PlainLink(conn, options);
    void link.read(rest);
    return link;
  } catch (error) {
    try {
      conn.close();
    } catch {
      // The signal has closed it.
    }
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}
