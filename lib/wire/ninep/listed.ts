/**
 * A 9P2000.L server over a listing: what a kernel mounts. The tree does not change, contents come from a
 * function. Reads run at the same time; everything else is answered from memory. A kernel waits for the
 * answers that it builds on.
 */
import type { Duplex } from "../duplex.ts";
import { NinepError } from "./folder.ts";
import {
  ERRNO,
  MessageReader,
  type Qid,
  type Reader,
  RLERROR,
  T,
  violation,
  Writer,
} from "./messages.ts";
import {
  answerAttributes,
  answerEntries,
  answerStatfs,
  answerVersion,
  answerWalk,
  Fids,
  KINDS,
  namesOf,
  placeIn,
  rangeOf,
  readOnly,
  refuseWriting,
} from "./read_only.ts";

export interface ListedNode {
  kind: "file" | "directory" | "symlink";
  /** Permission bits. */
  mode: number;
  size: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
  link?: string;
  /** Of a folder: numbers of its entries by name. */
  children?: Map<string, number>;
}

export interface ListedFile {
  /** Fewer bytes than asked for only at the end. */
  read(offset: number, count: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

/** Owned by root; numbers begin with 1, the root folder. */
export interface ListedNodes {
  node(number: number): ListedNode | undefined;
  open(number: number): Promise<ListedFile>;
}

const ROOT = 1;

interface Fid {
  number: number;
  /** Folders above, the nearest last: ".." leads there. */
  above: readonly number[];
  file?: ListedFile;
  entries?: [name: string, number: number][];
}

class ListedConnection {
  #fids = new Fids<Fid>();
  #msize = 0;
  /** Requests that are being answered, by tag. */
  #under = new Map<number, Promise<void>>();

  constructor(readonly stream: Duplex, readonly nodes: ListedNodes, readonly maxMessage: number) {}

  async run(): Promise<void> {
    const messages = new MessageReader(this.stream, this.maxMessage);
    try {
      for (let request = await messages.next(); request; request = await messages.next()) {
        const { tag } = request;
        const work = this.#answer(request).finally(() => {
          if (this.#under.get(tag) === work) this.#under.delete(tag);
        });
        this.#under.set(tag, work);
        // A connection that breaks is seen by the next read.
        work.catch(() => {});
      }
    } finally {
      await Promise.allSettled(this.#under.values());
      for (const { file } of this.#fids.values()) file?.close().catch(() => {/* it is gone */});
    }
  }

  async #answer(request: Reader): Promise<void> {
    let reply: Writer;
    try {
      reply = new Writer(request.type + 1, request.tag);
      await this.#handle(request, reply);
    } catch (error) {
      const errno = error instanceof NinepError ? error.errno : ERRNO.EIO;
      reply = new Writer(RLERROR, request.tag).u32(errno);
    }
    await this.stream.write(reply.finish());
  }

  #handle(request: Reader, reply: Writer): void | Promise<void> {
    if (this.#msize === 0 && request.type !== T.VERSION) throw violation("no version");
    switch (request.type) {
      case T.VERSION:
        this.#msize = answerVersion(request, reply, this.maxMessage);
        return;
      case T.ATTACH: {
        this.#fids.put(request.u32(), { number: ROOT, above: [] });
        return void reply.qid(this.#qid(ROOT));
      }
      case T.FLUSH:
        return this.#under.get(request.u16());
      case T.WALK:
        return this.#walk(request, reply);
      case T.LOPEN:
        return this.#open(request, reply);
      case T.READ:
        return this.#read(request, reply);
      case T.READDIR:
        return this.#readdir(request, reply);
      case T.GETATTR:
        return this.#getattr(request, reply);
      case T.READLINK: {
        const { link } = this.#node(this.#fids.get(request.u32()));
        if (link === undefined) throw new NinepError(ERRNO.EINVAL, "it is no link");
        return void reply.text(link);
      }
      case T.STATFS:
        return answerStatfs(reply);
      case T.CLUNK:
        return this.#clunk(request.u32());
      case T.REMOVE:
        this.#clunk(request.u32());
        throw readOnly();
      case T.FSYNC:
        return;
      case T.AUTH:
      case T.XATTRWALK:
      case T.LOCK:
      case T.GETLOCK:
        throw new NinepError(ERRNO.EOPNOTSUPP, "there is none");
      default:
        throw readOnly();
    }
  }

  #node({ number }: Fid): ListedNode {
    const node = this.nodes.node(number);
    if (!node) throw new NinepError(ERRNO.ENOENT, "it is not there");
    return node;
  }

  #qid(number: number): Qid {
    const kind = this.nodes.node(number)?.kind ?? "directory";
    return { type: KINDS[kind].qid, version: 0, path: BigInt(number) };
  }

  #walk(request: Reader, reply: Writer): void {
    const from = this.#fids.get(request.u32());
    const target = request.u32();
    const names = namesOf(request);
    let { number, above } = from;
    const qids: Qid[] = [];
    for (const name of names) {
      if (name === "..") {
        number = above.at(-1) ?? ROOT;
        above = above.slice(0, -1);
      } else if (name !== ".") {
        const next = this.nodes.node(number)?.children?.get(name);
        if (next === undefined) break;
        above = [...above, number];
        number = next;
      }
      qids.push(this.#qid(number));
    }
    if (qids.length === 0 && names.length > 0) {
      throw new NinepError(ERRNO.ENOENT, "it is not there");
    }
    if (qids.length === names.length) {
      if (this.#fids.is(target, from)) this.#fids.delete(target);
      this.#fids.put(target, { number, above });
    }
    answerWalk(reply, qids);
  }

  async #open(request: Reader, reply: Writer): Promise<void> {
    const fid = this.#fids.get(request.u32());
    refuseWriting(request.u32());
    const node = this.#node(fid);
    if (node.kind === "directory") {
      const parent = fid.above.at(-1) ?? ROOT;
      fid.entries = [[".", fid.number], ["..", parent], ...node.children ?? []];
    } else if (node.kind === "file") fid.file = await this.nodes.open(fid.number);
    else throw new NinepError(ERRNO.ELOOP, "links are not followed");
    reply.qid(this.#qid(fid.number)).u32(0);
  }

  async #read(request: Reader, reply: Writer): Promise<void> {
    const { file } = this.#fids.get(request.u32());
    const { offset, count } = rangeOf(request, this.#msize);
    if (!file) throw new NinepError(ERRNO.EBADF, "it is not open");
    const bytes = await file.read(placeIn(offset), count);
    reply.u32(bytes.length);
    reply.hole(bytes.length).set(bytes);
  }

  #readdir(request: Reader, reply: Writer): void {
    const { entries } = this.#fids.get(request.u32());
    const range = rangeOf(request, this.#msize);
    if (!entries) throw new NinepError(ERRNO.EBADF, "it is no open folder");
    answerEntries(reply, range, entries, ([name, number]) => {
      const kind = this.nodes.node(number)?.kind ?? "directory";
      return { name, qid: this.#qid(number), type: KINDS[kind].entry };
    });
  }

  #getattr(request: Reader, reply: Writer): void {
    const fid = this.#fids.get(request.u32());
    const { kind, mode, size, mtime, mtimeNs } = this.#node(fid);
    answerAttributes(reply, {
      qid: this.#qid(fid.number),
      mode: KINDS[kind].bits | mode,
      nlink: kind === "directory" ? 2 : 1,
      size,
      mtime,
      mtimeNs,
    });
  }

  #clunk(number: number): void {
    const { file } = this.#fids.get(number);
    this.#fids.delete(number);
    file?.close().catch(() => {/* it is gone */});
  }
}

/**
 * Serves until the other side ends its direction. Throws `upstream_failed` for what is no 9P; files are
 * closed by then.
 */
export function serveListed(
  stream: Duplex,
  nodes: ListedNodes,
  { maxMessage }: { maxMessage: number },
): Promise<void> {
  return new ListedConnection(stream, nodes, maxMessage).run();
}
