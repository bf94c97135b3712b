/**
 * A 9P2000.L server over a listing: what a kernel mounts. The tree does not change, contents come from a
 * function. Reads run at the same time; everything else is answered from memory. A kernel waits for the
 * answers that it builds on.
 */
import type { Duplex } from "../duplex.ts";
import { NinepError } from "./folder.ts";
import {
  ERRNO,
  GETATTR_BASIC,
  MAX_WALK,
  MessageReader,
  NO_FID,
  QID,
  type Qid,
  READ_HEADER,
  type Reader,
  RLERROR,
  T,
  VERSION,
  violation,
  Writer,
} from "./messages.ts";

export interface ListedNode {
  kind: "file" | "directory" | "symlink";
  /** Permission bits. */
  mode: number;
  size: number;
  /** Milliseconds since 1970. */
  mtime: number;
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

/** Bytes of a message, at least; kernels take 4096 and more. */
const MIN_MESSAGE = 4096;
/** Flags of open that ask for more than reading: write modes, O_CREAT, O_TRUNC. */
const WRITING = 0o3 | 0o100 | 0o1000;
const ROOT = 1;

const QID_TYPE = { file: QID.FILE, directory: QID.DIR, symlink: QID.SYMLINK } as const;
const TYPE_BITS = { file: 0o100000, directory: 0o040000, symlink: 0o120000 } as const;
const DIRENT = { directory: 4, file: 8, symlink: 10 } as const;

interface Fid {
  number: number;
  /** Folders above, the nearest last: ".." leads there. */
  above: readonly number[];
  file?: ListedFile;
  entries?: [name: string, number: number][];
}

class ListedConnection {
  #fids = new Map<number, Fid>();
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
        return this.#version(request, reply);
      case T.ATTACH: {
        this.#put(request.u32(), { number: ROOT, above: [] });
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
        const { link } = this.#node(this.#fid(request.u32()));
        if (link === undefined) throw new NinepError(ERRNO.EINVAL, "it is no link");
        return void reply.text(link);
      }
      case T.STATFS:
        reply.u32(0x01021997).u32(4096).u64(0).u64(0).u64(0).u64(0).u64(0).u64(0).u32(255);
        return;
      case T.CLUNK:
        return this.#clunk(request.u32());
      case T.REMOVE:
        this.#clunk(request.u32());
        throw new NinepError(ERRNO.EROFS, "it is read-only");
      case T.FSYNC:
        return;
      case T.AUTH:
      case T.XATTRWALK:
      case T.LOCK:
      case T.GETLOCK:
        throw new NinepError(ERRNO.EOPNOTSUPP, "there is none");
      default:
        throw new NinepError(ERRNO.EROFS, "it is read-only");
    }
  }

  #fid(number: number): Fid {
    const fid = this.#fids.get(number);
    if (!fid) throw new NinepError(ERRNO.EBADF, `fid ${number} is not in use`);
    return fid;
  }

  #put(number: number, fid: Fid): void {
    if (this.#fids.has(number) || number === NO_FID) {
      throw new NinepError(ERRNO.EBADF, `fid ${number} is in use`);
    }
    this.#fids.set(number, fid);
  }

  #node({ number }: Fid): ListedNode {
    const node = this.nodes.node(number);
    if (!node) throw new NinepError(ERRNO.ENOENT, "it is not there");
    return node;
  }

  #qid(number: number): Qid {
    const kind = this.nodes.node(number)?.kind ?? "directory";
    return { type: QID_TYPE[kind], version: 0, path: BigInt(number) };
  }

  #version(request: Reader, reply: Writer): void {
    const wanted = request.u32();
    const version = request.text();
    const known = version.startsWith(VERSION) && wanted >= MIN_MESSAGE;
    this.#msize = known ? Math.min(wanted, this.maxMessage) : 0;
    reply.u32(Math.min(wanted, this.maxMessage)).text(known ? VERSION : "unknown");
  }

  #walk(request: Reader, reply: Writer): void {
    const from = this.#fid(request.u32());
    const target = request.u32();
    const count = request.u16();
    if (count > MAX_WALK) throw new NinepError(ERRNO.EINVAL, "too many names");
    const names = Array.from({ length: count }, () => request.text());
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
    if (qids.length === 0 && count > 0) throw new NinepError(ERRNO.ENOENT, "it is not there");
    if (qids.length === count) {
      if (this.#fids.get(target) === from) this.#fids.delete(target);
      this.#put(target, { number, above });
    }
    reply.u16(qids.length);
    for (const qid of qids) reply.qid(qid);
  }

  async #open(request: Reader, reply: Writer): Promise<void> {
    const fid = this.#fid(request.u32());
    if (request.u32() & WRITING) throw new NinepError(ERRNO.EROFS, "it is read-only");
    const node = this.#node(fid);
    if (node.kind === "directory") {
      const parent = fid.above.at(-1) ?? ROOT;
      fid.entries = [[".", fid.number], ["..", parent], ...node.children ?? []];
    } else if (node.kind === "file") fid.file = await this.nodes.open(fid.number);
    else throw new NinepError(ERRNO.ELOOP, "links are not followed");
    reply.qid(this.#qid(fid.number)).u32(0);
  }

  async #read(request: Reader, reply: Writer): Promise<void> {
    const { file } = this.#fid(request.u32());
    const offset = request.u64();
    const count = Math.min(request.u32(), this.#msize - READ_HEADER);
    if (!file) throw new NinepError(ERRNO.EBADF, "it is not open");
    if (offset > BigInt(Number.MAX_SAFE_INTEGER)) throw new NinepError(ERRNO.EINVAL, "offset");
    const bytes = await file.read(Number(offset), count);
    reply.u32(bytes.length);
    reply.hole(bytes.length).set(bytes);
  }

  #readdir(request: Reader, reply: Writer): void {
    const { entries } = this.#fid(request.u32());
    const offset = Number(request.u64());
    const count = Math.min(request.u32(), this.#msize - READ_HEADER);
    if (!entries) throw new NinepError(ERRNO.EBADF, "it is no open folder");
    reply.u32(0);
    const start = reply.size;
    for (let index = offset; index < entries.length; index++) {
      const [name, number] = entries[index];
      const before = reply.size;
      const kind = this.nodes.node(number)?.kind ?? "directory";
      reply.qid(this.#qid(number)).u64(index + 1).u8(DIRENT[kind]).text(name);
      if (reply.size - start <= count) continue;
      if (before === start) throw new NinepError(ERRNO.EINVAL, "no room for an entry");
      reply.shrink(reply.size - before);
      break;
    }
    reply.patch32(READ_HEADER - 4, reply.size - start);
  }

  #getattr(request: Reader, reply: Writer): void {
    const fid = this.#fid(request.u32());
    const { kind, mode, size, mtime } = this.#node(fid);
    const seconds = Math.max(0, Math.floor(mtime / 1000));
    const nanoseconds = Math.max(0, Math.round((mtime - seconds * 1000) * 1e6));
    reply.u64(GETATTR_BASIC).qid(this.#qid(fid.number)).u32(TYPE_BITS[kind] | mode).u32(0).u32(0);
    reply.u64(kind === "directory" ? 2 : 1).u64(0).u64(size).u64(4096).u64(Math.ceil(size / 512));
    for (let time = 0; time < 3; time++) reply.u64(seconds).u64(nanoseconds);
    reply.u64(0).u64(0).u64(0).u64(0);
  }

  #clunk(number: number): void {
    const { file } = this.#fid(number);
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
