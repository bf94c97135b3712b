/** A 9P2000.L client. Whatever the server answers, memory and time are bounded. */
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../duplex.ts";
import { type FolderEntry } from "../files/node.ts";
import { ERRNO, FileError, type NodeStat } from "../files/stat.ts";
import { Wait } from "../patience.ts";
import type { NinepClientOptions, Walk } from "./client_types.ts";
import { attributes, data, listing } from "./answers.ts";
import {
  GETATTR_BASIC,
  join,
  MAX_WALK,
  MessageReader,
  NO_FID,
  NO_TAG,
  OWN_VERSION,
  type Qid,
  type Reader,
  RLERROR,
  RTOLD,
  T,
  VERSION,
  violation,
  Writer,
} from "./messages.ts";

const MAX_MESSAGE = 256 * 1024;
/** Bytes that other servers reserve in a message for the header of a read or write. */
const IO_HEADER = 24;
/** Milliseconds until fids that are let go of are ended. */
const LET_GO_MS = 10;
/** Reads of one file at once. */
const READ_AHEAD = 4;

interface Pending {
  type: number;
  resolve(reply: Reader): void;
  reject(error: unknown): void;
}

export class NinepClient {
  #stream: Duplex;
  #messages: MessageReader;
  #pending = new Map<number, Pending>();
  #nextTag = 0;
  #nextFid = 1;
  #freeFids: number[] = [];
  #failure: { error: unknown } | undefined;
  #msize: number;
  #outgoing: Uint8Array[] = [];
  #wait: Wait;
  #closed = Promise.withResolvers<unknown>();
  readonly inOrder: boolean;
  /** Both ends speak the version of svc's own mounts. */
  own = false;
  /** Called with news of watched folders, in their order among the answers. */
  told: (news: Reader) => void = () => {};
  /** Fids to be ended, and what ends them at the latest. */
  #over: number[] = [];
  #letting: ReturnType<typeof setTimeout> | undefined;

  private constructor(stream: Duplex, options: NinepClientOptions) {
    const { patienceMs, pace, maxMessage = MAX_MESSAGE, inOrder = true } = options;
    this.#stream = stream;
    this.#msize = maxMessage;
    this.inOrder = inOrder;
    const late = () => violation(`no answer for ${patienceMs! / 1000} s`);
    this.#wait = new Wait({ patienceMs, late, pace }, (error) => this.#broken(error));
    const read = async () => {
      const bytes = await stream.read();
      this.#wait.came(bytes?.length ?? 0);
      return bytes;
    };
    this.#messages = new MessageReader({ read }, maxMessage);
  }

  /** Negotiates the version. Throws `upstream_failed` where the other side does not speak 9P2000.L. */
  static async connect(stream: Duplex, options: NinepClientOptions = {}): Promise<NinepClient> {
    const client = new NinepClient(stream, options);
    void client.#receive();
    const most = client.#msize;
    const wanted = options.own ? OWN_VERSION : VERSION;
    const request = new Writer(T.VERSION, NO_TAG).u32(most).text(wanted);
    const reply = await client.#call(request);
    const msize = reply.u32();
    const version = reply.text();
    if (version !== VERSION && version !== wanted || msize > most || msize < 1024) {
      client.close();
      throw violation(`version ${JSON.stringify(version)} with messages of ${msize} bytes`);
    }
    client.#msize = msize;
    client.own = version === OWN_VERSION;
    return client;
  }

  /** Resolves when the connection has ended, with the error that later calls throw. */
  get closed(): Promise<unknown> {
    return this.#closed.promise;
  }

  /** Bytes of one read, at most. */
  get readSize(): number {
    return this.#msize - IO_HEADER;
  }

  close(): void {
    this.#fail(violation("it was closed"));
    this.#stream.reset();
  }

  /** Attaches to the root of an export. `uid` is 0 or the user's own number. */
  async attach(name: string, uid = 0): Promise<number> {
    const fid = this.takeFid();
    const fill = (request: Writer) => request.u32(fid).u32(NO_FID).text("").text(name).u32(uid);
    await this.ask(T.ATTACH, fill, () => {});
    return fid;
  }

  /** A new fid for the file at `names`. Throws {@linkcode FileError}, ENOENT where a part is missing. */
  async walk(from: number, names: readonly string[]): Promise<number> {
    const { fid, found } = this.begin(from, names);
    await found;
    return fid;
  }

  /** Requests that name the new fid may follow at once where the server works in order; with `kept` also of a failed walk. */
  begin(from: number, names: readonly string[], kept = false): Walk {
    const fid = this.takeFid();
    const found = this.#walked(names, this.#calls(this.#walks(from, fid, names))).catch((error) => {
      if (!kept) this.giveFid(fid);
      throw error;
    });
    found.catch(() => {/* who waits for it is told */});
    return { fid, found };
  }

  /** Ends a fid. Throws errors of earlier writes that only show now. */
  async clunk(fid: number): Promise<void> {
    try {
      await this.ask(T.CLUNK, (request) => request.u32(fid), () => {});
    } finally {
      this.giveFid(fid);
    }
  }

  /** Ends a fid with the next request, or after a moment: a message of its own would hold up the next answer. */
  letGo(fid: number): void {
    this.#over.push(fid);
    this.#letting ??= setTimeout(() => this.#clunkOver(), LET_GO_MS);
  }

  #clunkOver(): void {
    clearTimeout(this.#letting);
    this.#letting = undefined;
    for (const fid of this.#over.splice(0)) {
      this.clunk(fid).catch(() => {/* told by the next call */});
    }
  }

  /** Sends one request; `parse` reads its answer. */
  ask<R>(
    type: number,
    fill: (request: Writer) => Writer,
    parse: (reply: Reader) => R,
  ): Promise<R> {
    return this.#parsed(this.#call(fill(new Writer(type, this.#tag()))), parse);
  }

  getattr(fid: number): Promise<NodeStat & { qid: Qid }> {
    const fill = (request: Writer) => request.u32(fid).u64(GETATTR_BASIC);
    return this.ask(T.GETATTR, fill, attributes);
  }

  readlink(fid: number): Promise<string> {
    return this.ask(T.READLINK, (request) => request.u32(fid), (reply) => reply.text());
  }

  open(fid: number, flags = 0): Promise<void> {
    return this.ask(T.LOPEN, (request) => request.u32(fid).u32(flags), () => {});
  }

  /** Bytes of an open file; fewer than `count`, or none, at its end. */
  read(fid: number, offset: number, count: number): Promise<Uint8Array> {
    const fill = (request: Writer) => request.u32(fid).u64(offset).u32(count);
    return this.ask(T.READ, fill, (reply) => data(reply, count));
  }

  /** Writes as many bytes as fit into one message; returns their number. `heard`: called when the answer comes. */
  async write(fid: number, offset: number, bytes: Uint8Array, heard = () => {}): Promise<number> {
    const part = bytes.subarray(0, this.readSize);
    const fill = (request: Writer) => request.u32(fid).u64(offset).u32(part.length).raw(part);
    const done = await this.ask(T.WRITE, fill, (reply) => {
      heard();
      return reply.u32();
    });
    if (done > part.length) throw this.#broken(violation("more was written than was sent"));
    return done;
  }

  /** Some entries of an open folder without "." and ".."; none at its end. */
  async readdir(fid: number, offset: bigint): Promise<FolderEntry[]> {
    const count = this.readSize;
    const fill = (request: Writer) => request.u32(fid).u64(offset).u32(count);
    while (true) {
      const { entries, next } = await this.ask(T.READDIR, fill, (reply) => listing(reply, count));
      if (next === undefined) return [];
      if (next === offset) throw this.#broken(violation("a listing goes in circles"));
      offset = next;
      if (entries.length > 0) return entries;
    }
  }

  /**
   * The first `size` bytes of a file, fewer where it is shorter. All requests for a small file are sent at
   * once: the server works on one fid in order (see server.ts), so the file costs one round trip.
   */
  async *readFile(root: number, path: readonly string[], size: number): AsyncGenerator<Uint8Array> {
    const fid = this.takeFid();
    const { readSize } = this;
    const walks = this.#walks(root, fid, path);
    const open = new Writer(T.LOPEN, this.#tag()).u32(fid).u32(0);
    let asked = 0;
    const nextRead = () => {
      const count = Math.min(readSize, size - asked);
      const request = new Writer(T.READ, this.#tag()).u32(fid).u64(asked).u32(count);
      asked += count;
      return { request, count };
    };
    const first = size > 0 ? nextRead() : undefined;
    const small = asked >= size;
    const clunk = () => new Writer(T.CLUNK, this.#tag()).u32(fid);
    const together = [...walks, open, ...first ? [first.request] : [], ...small ? [clunk()] : []];
    const replies = this.#calls(together);
    let walked = false;
    try {
      await this.#walked(path, replies.slice(0, walks.length));
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
      if (walked && !small) await this.#call(clunk()).catch(() => {/* told by the next call */});
      if (!this.#failure) this.giveFid(fid);
    }
  }

  /** One walk has at most 16 names: further walks continue with the rest of the path. */
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

  /** The qid of the last name. */
  async #walked(
    names: readonly string[],
    replies: readonly Promise<Reader>[],
  ): Promise<Qid | undefined> {
    let last: Qid | undefined;
    for (const [index, reply] of replies.entries()) {
      const asked = Math.min(MAX_WALK, names.length - index * MAX_WALK);
      const found = await this.#parsed(reply, (reply) => {
        const found = reply.u16();
        if (found > asked) throw violation("a walk found more than it looked for");
        for (let n = 0; n < found; n++) last = reply.qid();
        return found;
      });
      if (found < asked) throw new FileError(ERRNO.ENOENT, "it is not there");
    }
    return last;
  }

  #tag(): number {
    // Few tags are in use: a free one is found soon.
    do this.#nextTag = (this.#nextTag + 1) % NO_TAG; while (this.#pending.has(this.#nextTag));
    return this.#nextTag;
  }

  /** A free fid; it is in use until {@linkcode NinepClient.giveFid} or a clunk. */
  takeFid(): number {
    return this.#freeFids.pop() ?? this.#nextFid++;
  }

  /** Returns a fid that was not used after all. */
  giveFid(fid: number): void {
    this.#freeFids.push(fid);
  }

  /** The server does not speak 9P: the connection is given up. */
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
    // Several replies fail together; the caller awaits only the first.
    for (const reply of replies) reply.catch(() => {});
    if (this.#failure) return replies;
    this.#send(requests);
    this.#wait.begin();
    return replies;
  }

  /** Requests of one turn of the event loop are sent together. */
  #send(requests: Writer[]): void {
    if (this.#over.length > 0) this.#clunkOver();
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
        if (this.own && reply.type === RTOLD && reply.tag === NO_TAG) {
          this.told(reply);
          continue;
        }
        const pending = this.#pending.get(reply.tag);
        if (!pending) throw violation("an answer that nobody asked for");
        if (reply.type !== RLERROR && reply.type !== pending.type + 1) {
          throw violation(`an answer of type ${reply.type} to ${pending.type}`);
        }
        const error = reply.type === RLERROR ? new FileError(reply.u32()) : undefined;
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
    clearTimeout(this.#letting);
    this.#wait.end();
    this.#closed.resolve(this.#failure.error);
  }
}
