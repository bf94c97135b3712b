/** A 9P2000.L client that only reads. Whatever the server answers, memory and time are bounded. */
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../duplex.ts";
import { type Patience, Wait } from "../patience.ts";
import {
  GETATTR_BASIC,
  HEADER,
  join,
  MAX_WALK,
  MessageReader,
  NO_FID,
  NO_TAG,
  type Qid,
  type Reader,
  RLERROR,
  T,
  VERSION,
  violation,
  Writer,
} from "./messages.ts";

const MAX_MESSAGE = 256 * 1024;
/** What other servers keep free in a message for the header of a read or write. */
const IO_HEADER = 24;
/** Reads of one file under way at once. */
const READ_AHEAD = 4;

/** What the server answered instead of the result: one of Linux's error numbers. */
export class ServerError extends Error {
  constructor(readonly errno: number) {
    super(`error ${errno}`);
  }
}

export interface Attributes {
  qid: Qid;
  mode: number;
  uid: number;
  gid: number;
  nlink: bigint;
  size: bigint;
  mtime: bigint;
  mtimeNs: number;
}

export interface Entry {
  qid: Qid;
  /** As in Linux's dirent. */
  type: number;
  name: string;
}

interface Pending {
  type: number;
  resolve(reply: Reader): void;
  reject(error: unknown): void;
}

/** How long questions may wait with no part of an answer to any of them, and how much has to come. */
export type NinepClientOptions = Omit<Patience, "late">;

export class NinepClient {
  #stream: Duplex;
  #messages: MessageReader;
  #pending = new Map<number, Pending>();
  #nextTag = 0;
  #nextFid = 1;
  #freeFids: number[] = [];
  #failure: { error: unknown } | undefined;
  #msize = MAX_MESSAGE;
  #outgoing: Uint8Array[] = [];
  #wait: Wait;

  private constructor(stream: Duplex, { patienceMs, pace }: NinepClientOptions) {
    this.#stream = stream;
    const late = () => violation(`no answer for ${patienceMs! / 1000} s`);
    this.#wait = new Wait({ patienceMs, late, pace }, (error) => this.#broken(error));
    const read = async () => {
      const bytes = await stream.read();
      this.#wait.came(bytes?.length ?? 0);
      return bytes;
    };
    this.#messages = new MessageReader({ read }, MAX_MESSAGE);
  }

  /** Agrees on the version. Throws `upstream_failed` where the other side speaks something else. */
  static async connect(stream: Duplex, options: NinepClientOptions = {}): Promise<NinepClient> {
    const client = new NinepClient(stream, options);
    void client.#receive();
    const request = new Writer(T.VERSION, NO_TAG).u32(MAX_MESSAGE).text(VERSION);
    const reply = await client.#call(request);
    const msize = reply.u32();
    const version = reply.text();
    if (version !== VERSION || msize > MAX_MESSAGE || msize < 1024) {
      client.close();
      throw violation(`version ${JSON.stringify(version)} with messages of ${msize} bytes`);
    }
    client.#msize = msize;
    return client;
  }

  /** Bytes of one read, at most. */
  get readSize(): number {
    return this.#msize - IO_HEADER;
  }

  close(): void {
    this.#fail(violation("it was closed"));
    this.#stream.reset();
  }

  /** The root of an export; 0 or the user's own number as `uid`. */
  async attach(name: string, uid = 0): Promise<number> {
    const fid = this.#fid();
    const request = new Writer(T.ATTACH, this.#tag()).u32(fid).u32(NO_FID).text("").text(name);
    await this.#call(request.u32(uid));
    return fid;
  }

  /** A new fid for what `names` lead to. Throws {@linkcode ServerError}, ENOENT where a part is missing. */
  async walk(from: number, names: readonly string[]): Promise<number> {
    const fid = this.#fid();
    try {
      await this.#walked(this.#walks(from, fid, names));
    } catch (error) {
      this.#freeFids.push(fid);
      throw error;
    }
    return fid;
  }

  async clunk(fid: number): Promise<void> {
    await this.#call(new Writer(T.CLUNK, this.#tag()).u32(fid));
    this.#freeFids.push(fid);
  }

  getattr(fid: number): Promise<Attributes> {
    const request = new Writer(T.GETATTR, this.#tag()).u32(fid).u64(GETATTR_BASIC);
    return this.#parsed(this.#call(request), (reply) => {
      reply.u64();
      const [qid, mode, uid, gid] = [reply.qid(), reply.u32(), reply.u32(), reply.u32()];
      const [nlink, , size] = [reply.u64(), reply.u64(), reply.u64()];
      reply.raw(32);
      const [mtime, ns] = [BigInt.asIntN(64, reply.u64()), reply.u64()];
      return { qid, mode, uid, gid, nlink, size, mtime, mtimeNs: Number(ns) };
    });
  }

  readlink(fid: number): Promise<string> {
    const request = new Writer(T.READLINK, this.#tag()).u32(fid);
    return this.#parsed(this.#call(request), (reply) => reply.text());
  }

  async open(fid: number): Promise<void> {
    await this.#call(new Writer(T.LOPEN, this.#tag()).u32(fid).u32(0));
  }

  /** Bytes of an open file; fewer than asked for, or none, at its end. */
  read(fid: number, offset: number, count: number): Promise<Uint8Array> {
    const reply = this.#call(this.#reading(T.READ, fid, offset, count));
    return this.#parsed(reply, (reply) => data(reply, count));
  }

  /**
   * Entries of an open folder without "." and "..". Throws `upstream_failed` for more than `limit` and
   * for a listing that goes in circles.
   */
  async *readdir(fid: number, limit: number): AsyncGenerator<Entry> {
    const count = this.readSize;
    const seen = new Set<bigint>();
    for (let offset = 0n, entries = 0;;) {
      const request = new Writer(T.READDIR, this.#tag()).u32(fid).u64(offset).u32(count);
      const part = await this.#parsed(this.#call(request), (reply) => listing(reply, count));
      entries += part.entries.length;
      if (part.entries.length === 0) return;
      if (seen.has(offset)) throw this.#broken(violation("a listing goes in circles"));
      if (entries > limit) {
        throw violation(`a folder lists more than ${limit} entries`);
      }
      seen.add(offset);
      offset = part.next;
      yield* part.entries.filter(({ name }) => name !== "." && name !== "..");
    }
  }

  /**
   * The first `size` bytes of a file, less where it is shorter. What belongs together is sent at once:
   * the server answers in order (see server.ts), so a small file costs one journey.
   */
  async *readFile(root: number, path: readonly string[], size: number): AsyncGenerator<Uint8Array> {
    const fid = this.#fid();
    const { readSize } = this;
    const walks = this.#walks(root, fid, path);
    const open = new Writer(T.LOPEN, this.#tag()).u32(fid).u32(0);
    let asked = 0;
    const nextRead = () => {
      const count = Math.min(readSize, size - asked);
      const request = this.#reading(T.READ, fid, asked, count);
      asked += count;
      return { request, count };
    };
    const first = size > 0 ? nextRead() : undefined;
    const small = asked >= size;
    const clunk = () => new Writer(T.CLUNK, this.#tag()).u32(fid);
    const together = [...walks, open, ...first ? [first.request] : [], ...small ? [clunk()] : []];
    const replies = this.#calls(together);
    let walked = false;
    let closed = small;
    try {
      await this.#walked(walks, replies);
      walked = true;
      await replies[walks.length];
      const queue: { reply: Promise<Reader>; count: number }[] = [];
      if (first) queue.push({ reply: replies[walks.length + 1], count: first.count });
      for (let one = queue.shift(); one; one = queue.shift()) {
        while (asked < size && queue.length < READ_AHEAD) {
          const { request, count } = nextRead();
          queue.push({ reply: this.#calls([request])[0], count });
        }
        const bytes = await this.#parsed(one.reply, (reply) => data(reply, one.count));
        if (bytes.length > 0) yield bytes;
        if (bytes.length < one.count) break;
      }
      if (small) await replies.at(-1);
    } finally {
      if (walked && !closed) {
        closed = true;
        await this.#call(clunk()).catch(() => {/* told by the next call */});
      }
      if (!this.#failure) this.#freeFids.push(fid);
    }
  }

  #reading(type: number, fid: number, offset: number, count: number): Writer {
    return new Writer(type, this.#tag()).u32(fid).u64(offset).u32(count);
  }

  /** One walk has at most 16 names: a longer path goes on from where the one before ended. */
  #walks(from: number, fid: number, names: readonly string[]): Writer[] {
    const walks: Writer[] = [];
    let at = 0;
    do {
      const part = names.slice(at, at + MAX_WALK);
      const request = new Writer(T.WALK, this.#tag()).u32(at === 0 ? from : fid).u32(fid);
      request.u16(part.length);
      for (const name of part) request.text(name);
      walks.push(request);
      at += MAX_WALK;
    } while (at < names.length);
    return walks;
  }

  async #walked(walks: Writer[], replies = this.#calls(walks)): Promise<void> {
    for (const [index, walk] of walks.entries()) {
      const asked = namesOf(walk);
      const found = await this.#parsed(replies[index], (reply) => reply.u16());
      if (found > asked) {
        throw this.#broken(violation("a walk found more than it looked for"));
      }
      if (found < asked) throw new ServerError(2);
    }
  }

  #tag(): number {
    // Tags in use are few: a free one is near.
    do this.#nextTag = (this.#nextTag + 1) % NO_TAG; while (this.#pending.has(this.#nextTag));
    return this.#nextTag;
  }

  #fid(): number {
    return this.#freeFids.pop() ?? this.#nextFid++;
  }

  /** The server does not speak 9P: nothing else it says is of use. */
  #broken(error: unknown): unknown {
    this.#fail(error);
    this.#stream.reset();
    return error;
  }

  async #parsed<R>(reply: Promise<Reader>, parse: (reply: Reader) => R): Promise<R> {
    const message = await reply;
    try {
      return parse(message);
    } catch (error) {
      throw this.#broken(error);
    }
  }

  #call(request: Writer): Promise<Reader> {
    return this.#calls([request])[0];
  }

  #calls(requests: Writer[]): Promise<Reader>[] {
    const replies = requests.map(({ type, tag }) => {
      if (this.#failure) return Promise.reject(this.#failure.error);
      return new Promise<Reader>((resolve, reject) =>
        this.#pending.set(tag, { type, resolve, reject })
      );
    });
    // Several fail together; the caller looks at the first.
    for (const reply of replies) reply.catch(() => {});
    if (this.#failure) return replies;
    this.#send(requests);
    this.#wait.begin();
    return replies;
  }

  /** What is asked in one turn of the event loop goes out together. */
  #send(requests: Writer[]): void {
    const idle = this.#outgoing.length === 0;
    for (const request of requests) this.#outgoing.push(request.finish());
    if (idle) setImmediate(() => this.#flush());
  }

  async #flush(): Promise<void> {
    try {
      while (this.#outgoing.length > 0 && !this.#failure) {
        const size = this.#outgoing.reduce((sum, { length }) => sum + length, 0);
        const bytes = join(this.#outgoing, size);
        this.#outgoing = [];
        await this.#stream.write(bytes);
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  async #receive(): Promise<void> {
    try {
      for (let reply = await this.#messages.next(); reply; reply = await this.#messages.next()) {
        const pending = this.#pending.get(reply.tag);
        if (!pending) throw violation("an answer that nobody asked for");
        if (reply.type !== RLERROR && reply.type !== pending.type + 1) {
          throw violation(`an answer of type ${reply.type} to ${pending.type}`);
        }
        const error = reply.type === RLERROR ? new ServerError(reply.u32()) : undefined;
        this.#pending.delete(reply.tag);
        if (this.#pending.size === 0) this.#wait.end();
        if (error) pending.reject(error);
        else pending.resolve(reply);
      }
      this.#fail(violation("it ended"));
    } catch (error) {
      this.#broken(error);
    }
  }

  #fail(error: unknown): void {
    if (this.#failure) return;
    this.#failure = {
      error: error instanceof SvcError ? error : violation(String((error as Error)?.message)),
    };
    for (const { reject } of this.#pending.values()) reject(this.#failure.error);
    this.#pending.clear();
    this.#wait.end();
  }
}

/** How many names a walk has: fid and new fid stand before the count. */
function namesOf(walk: Writer): number {
  const bytes = walk.finish();
  return new DataView(bytes.buffer, bytes.byteOffset).getUint16(HEADER + 8, true);
}

function listing(reply: Reader, asked: number): { entries: Entry[]; next: bigint } {
  const size = reply.u32();
  if (size > asked || size !== reply.left) throw violation("a listing has the wrong size");
  const entries: Entry[] = [];
  let next = 0n;
  while (reply.left > 0) {
    const qid = reply.qid();
    next = reply.u64();
    const type = reply.u8();
    const name = reply.text();
    if (name === "" || /[/\0]/.test(name)) throw violation("a listing has a name with a slash");
    entries.push({ qid, type, name });
  }
  return { entries, next };
}

function data(reply: Reader, asked: number): Uint8Array {
  const size = reply.u32();
  if (size > asked || size !== reply.left) throw violation("an answer has the wrong size");
  return reply.raw(size);
}
