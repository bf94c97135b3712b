/**
 * A client of the SSH File Transfer Protocol on a connection that Incus hands over: the files of an instance, or of a
 * volume, as they are in there. The daemon's side resolves paths within them: no link leads out.
 */
import { Buffer } from "node:buffer";
import { type ErrorCode, SvcError } from "../base/errors.ts";
import type { Duplex } from "../wire/duplex.ts";
import { type Attributes, packet, type Part, Parts, STATUS, TYPE } from "./sftp_packets.ts";

const VERSION = 3;
/** Bytes of one read or write; the other side takes no more. */
const CHUNK = 32 * 1024;
/** Reads and writes that are under way at a time. */
const AHEAD = 16;
/** Bytes of a packet, at most. */
const MAX_PACKET = 1024 ** 2;

/** How a file is opened. */
const OPEN = { read: 0x01, create: 0x02 | 0x08 | 0x20 } as const;

export type { Attributes };

export interface Entry {
  name: string;
  attributes: Attributes;
}

interface Reply {
  type: number;
  parts: Parts;
}

/** What a refusal is about, where its code does not tell. */
type Reason = "end" | "no_folder";

export class SftpError extends SvcError {
  readonly reason?: Reason;

  constructor(code: ErrorCode, message: string, reason?: Reason) {
    super(code, message);
    this.reason = reason;
  }
}

/** The other side has few codes of its own: its words are those of the system. */
const WORDS: readonly (readonly [RegExp, ErrorCode, Reason?])[] = [
  [/not a directory/i, "conflict", "no_folder"],
  [/too many (links|levels)|file name too long|invalid argument/i, "argument_invalid"],
  [/read-only|file exists|is a directory|not empty|busy/i, "conflict"],
];

function refusal(attempted: string, status: number, words: string): SftpError {
  const message = `${attempted}: ${words || "it failed"}`;
  if (status === STATUS.end) return new SftpError("upstream_failed", message, "end");
  if (status === STATUS.missing) return new SftpError("not_found", message);
  if (status === STATUS.denied) return new SftpError("denied", message);
  const [, code, reason] = WORDS.find(([pattern]) => pattern.test(words)) ?? [];
  return new SftpError(code ?? "upstream_failed", message, reason);
}

export class Sftp implements Disposable {
  readonly #connection: Duplex;
  readonly #attempted: string;
  readonly #waiting = new Map<number, PromiseWithResolvers<Reply>>();
  #id = 0;
  #failure: unknown;

  private constructor(connection: Duplex, attempted: string) {
    this.#connection = connection;
    this.#attempted = attempted;
  }

  /** Owns the connection from the call on. */
  static async begin(connection: Duplex, attempted: string): Promise<Sftp> {
    const made = new Sftp(connection, attempted);
    const version = Promise.withResolvers<Reply>();
    made.#waiting.set(-1, version);
    made.#receive();
    try {
      await connection.write(packet(TYPE.init, [VERSION]));
      await version.promise;
      return made;
    } catch (error) {
      made[Symbol.dispose]();
      throw error;
    }
  }

  async #receive(): Promise<void> {
    try {
      for await (const body of packets(this.#connection)) {
        const type = body[0];
        const parts = new Parts(body.subarray(1));
        const id = type === TYPE.version ? -1 : parts.number();
        this.#waiting.get(id)?.resolve({ type, parts });
        this.#waiting.delete(id);
      }
      this.#end(new Error("it was closed"));
    } catch (error) {
      this.#end(error);
    }
  }

  #end(cause: unknown): void {
    this.#failure ??= new SvcError("unavailable", `${this.#attempted}: the daemon hung up`, {
      cause,
      help: "try again",
    });
    for (const { reject } of this.#waiting.values()) reject(this.#failure);
    this.#waiting.clear();
    this.#connection.reset();
  }

  async #ask(type: number, parts: readonly Part[], expected: number): Promise<Parts> {
    if (this.#failure !== undefined) throw this.#failure;
    const id = ++this.#id;
    const reply = Promise.withResolvers<Reply>();
    this.#waiting.set(id, reply);
    // Told to who waits for it, also where the write fails first.
    reply.promise.catch(() => {});
    await this.#connection.write(packet(type, [id, ...parts]));
    const { type: got, parts: found } = await reply.promise;
    if (got === expected && got !== TYPE.status) return found;
    const status = got === TYPE.status ? found.number() : undefined;
    if (status === undefined || status === STATUS.ok && expected !== TYPE.status) {
      throw new SvcError("upstream_failed", `${this.#attempted}: the daemon's answer is none`);
    }
    if (status === STATUS.ok) return found;
    throw refusal(this.#attempted, status, found.text());
  }

  async #do(type: number, parts: readonly Part[]): Promise<void> {
    await this.#ask(type, parts, TYPE.status);
  }

  async #stat(type: number, path: string): Promise<Attributes | undefined> {
    try {
      return (await this.#ask(type, [path], TYPE.attrs)).attributes();
    } catch (error) {
      if (error instanceof SftpError) {
        if (error.reason === "no_folder" || error.code === "not_found") return undefined;
      }
      throw error;
    }
  }

  /** Of what a link leads to. Undefined: nothing is there. */
  stat(path: string): Promise<Attributes | undefined> {
    return this.#stat(TYPE.stat, path);
  }

  /** Of a link itself. */
  lstat(path: string): Promise<Attributes | undefined> {
    return this.#stat(TYPE.lstat, path);
  }

  async readlink(path: string): Promise<string> {
    const parts = await this.#ask(TYPE.readlink, [path], TYPE.name);
    parts.number();
    return parts.text();
  }

  /** Without "." and "..". */
  async *readdir(path: string): AsyncGenerator<Entry, void, void> {
    const handle = (await this.#ask(TYPE.opendir, [path], TYPE.handle)).data().slice();
    try {
      for (;;) {
        const parts = await this.#ask(TYPE.readdir, [handle], TYPE.name).catch(atEnd);
        if (!parts) return;
        for (let left = parts.number(); left > 0; left--) {
          const name = parts.text();
          parts.data(); // a line for people
          const attributes = parts.attributes();
          if (name !== "." && name !== "..") yield { name, attributes };
        }
      }
    } finally {
      await this.#close(handle);
    }
  }

  #close(handle: Uint8Array): Promise<void> {
    return this.#do(TYPE.close, [handle]).catch(() => {/* nothing is written by it */});
  }

  /** The content, from its beginning to its end. `ahead`: parts that are asked for before they are read. */
  async *read(path: string, { ahead = AHEAD } = {}): AsyncGenerator<Uint8Array, void, void> {
    const handle = (await this.#ask(TYPE.open, [path, OPEN.read, {}], TYPE.handle)).data().slice();
    const under: Promise<Parts | undefined>[] = [];
    let offset = 0;
    const ask = (at: number, size: number) => {
      const asked = this.#ask(TYPE.read, [handle, BigInt(at), size], TYPE.data).catch(atEnd);
      asked.catch(() => {/* told to who reads */});
      return asked;
    };
    try {
      for (let at = 0;;) {
        for (; under.length < ahead; offset += CHUNK) under.push(ask(offset, CHUNK));
        let parts = await under.shift()!;
        if (!parts) return;
        // A short answer: the rest of it comes before what was asked for behind it.
        for (let bytes = parts.data();;) {
          yield bytes;
          at += bytes.length;
          const left = CHUNK - at % CHUNK;
          if (left === CHUNK) break;
          parts = await ask(at, left);
          if (!parts) return;
          bytes = parts.data();
        }
      }
    } finally {
      await Promise.allSettled(under);
      await this.#close(handle);
    }
  }

  /** Makes a file, which must not be there. */
  async create(path: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const open = await this.#ask(TYPE.open, [path, OPEN.create, { mode: 0o600 }], TYPE.handle);
    const handle = open.data().slice();
    const under: Promise<void>[] = [];
    let at = 0;
    try {
      for await (const bytes of content) {
        for (let from = 0; from < bytes.length; from += CHUNK) {
          const part = bytes.subarray(from, from + CHUNK);
          const written = this.#do(TYPE.write, [handle, BigInt(at), part]);
          written.catch(() => {/* told below */});
          under.push(written);
          at += part.length;
          if (under.length >= AHEAD) await under.shift();
        }
      }
      await Promise.all(under);
      await this.#do(TYPE.close, [handle]);
    } catch (error) {
      await Promise.allSettled(under);
      await this.#close(handle);
      throw error;
    }
  }

  /** A link is followed. */
  set(path: string, attributes: Attributes): Promise<void> {
    return this.#do(TYPE.setstat, [path, attributes]);
  }

  mkdir(path: string): Promise<void> {
    return this.#do(TYPE.mkdir, [path, {}]);
  }

  remove(path: string): Promise<void> {
    return this.#do(TYPE.remove, [path]);
  }

  symlink(target: string, path: string): Promise<void> {
    return this.#do(TYPE.symlink, [target, path]);
  }

  link(path: string, other: string): Promise<void> {
    return this.#do(TYPE.extended, ["hardlink@openssh.com", path, other]);
  }

  /** Takes the place of a file that is there. */
  rename(path: string, to: string): Promise<void> {
    return this.#do(TYPE.extended, ["posix-rename@openssh.com", path, to]);
  }

  [Symbol.dispose](): void {
    this.#end(new Error("it was closed here"));
  }
}

/** The end of a file or a folder is told as a refusal. */
function atEnd(error: unknown): undefined {
  if (!(error instanceof SftpError) || error.reason !== "end") throw error;
}

/** The packets' bodies: their type and what follows. */
async function* packets(connection: Duplex): AsyncGenerator<Uint8Array, void, void> {
  let rest: Uint8Array = new Uint8Array();
  for (let bytes = await connection.read(); bytes; bytes = await connection.read()) {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    while (rest.length >= 4) {
      const length = new DataView(rest.buffer, rest.byteOffset, 4).getUint32(0);
      if (length === 0 || length > MAX_PACKET) throw new Error("it sends what is no packet");
      if (rest.length < 4 + length) break;
      yield rest.subarray(4, 4 + length);
      rest = rest.subarray(4 + length);
    }
  }
}
