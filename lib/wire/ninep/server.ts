/**
 * A 9P2000.L server, read-only: what a caller lets a builder read. Requests are answered one by one, in
 * the order they came: a client may send what depends on an answer before it has that answer.
 */
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../duplex.ts";
import { asNinepError, type ConfinedFolder, NinepError, type NodeStat } from "./folder.ts";
import { hostFiles } from "./host_files.ts";
import {
  ERRNO,
  GETATTR_BASIC,
  join,
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

/** Bytes of a message, at most; and at least, for a client that asks for less to be of use. */
const MAX_MESSAGE = 1 << 20;
const MIN_MESSAGE = 4096;
/** Files that a client may hold at once. */
const MAX_FIDS = 16_384;
const MAX_OPEN = 256;
/** Answers are gathered up to this size. */
const BATCH = 256 * 1024;
/** Flags of open that ask for more than reading: write modes, O_CREAT, O_TRUNC. */
const WRITING = 0o3 | 0o100 | 0o1000;

interface Fid {
  folder: ConfinedFolder;
  path: readonly string[];
  file?: { fd: number };
  entries?: { name: string; qid: Qid; type: number }[];
}

export interface ServeOptions {
  /** Told of bytes of files and folders that left. */
  onRead?: (bytes: number) => void;
}

function qidOf(stat: NodeStat): Qid {
  const type = stat.kind === "directory"
    ? QID.DIR
    : stat.kind === "symlink"
    ? QID.SYMLINK
    : QID.FILE;
  return { type, version: Math.floor(stat.mtime) >>> 0, path: BigInt(stat.ino) };
}

/** What readdir tells of the kind: DT_DIR, DT_LNK, DT_REG. */
const direntType = (stat: NodeStat) =>
  stat.kind === "directory" ? 4 : stat.kind === "symlink" ? 10 : 8;

class Connection {
  #fids = new Map<number, Fid>();
  #open = 0;
  #msize = 0;

  constructor(
    readonly stream: Duplex,
    readonly exports: ReadonlyMap<string, ConfinedFolder>,
    readonly options: ServeOptions,
  ) {}

  async run(): Promise<void> {
    const messages = new MessageReader(this.stream, MAX_MESSAGE);
    let batch: Uint8Array[] = [];
    let size = 0;
    const flush = async () => {
      if (size === 0) return;
      const whole = join(batch, size);
      batch = [];
      size = 0;
      await this.stream.write(whole);
    };
    try {
      for (let request = await messages.next(); request; request = await messages.next()) {
        const answer = this.#answer(request);
        batch.push(answer);
        size += answer.length;
        if (!messages.ready || size > BATCH) await flush();
      }
      await this.stream.closeWrite();
    } finally {
      for (const fid of this.#fids.values()) this.#close(fid);
      this.#fids.clear();
    }
  }

  #answer(request: Reader): Uint8Array<ArrayBuffer> {
    try {
      const reply = new Writer(request.type + 1, request.tag);
      this.#handle(request, reply);
      return reply.finish();
    } catch (error) {
      // A message that cannot be read leaves nothing that could be answered.
      if (error instanceof SvcError) throw error;
      return new Writer(RLERROR, request.tag).u32(asNinepError(error).errno).finish();
    }
  }

  #handle(request: Reader, reply: Writer): void {
    if (this.#msize === 0 && request.type !== T.VERSION) {
      throw violation("no version was agreed on");
    }
    switch (request.type) {
      case T.VERSION:
        return this.#version(request, reply);
      case T.AUTH:
        throw new NinepError(ERRNO.ENOENT, "no authentication is needed");
      case T.ATTACH:
        return this.#attach(request, reply);
      case T.FLUSH:
        return;
      case T.WALK:
        return this.#walk(request, reply);
      case T.LOPEN:
        return this.#lopen(request, reply);
      case T.READ:
        return this.#read(request, reply);
      case T.READDIR:
        return this.#readdir(request, reply);
      case T.GETATTR:
        return this.#getattr(request, reply);
      case T.READLINK: {
        const { folder, path } = this.#fid(request.u32());
        return void reply.text(folder.readlink(path));
      }
      case T.STATFS:
        this.#fid(request.u32());
        reply.u32(0x01021997).u32(4096).u64(0).u64(0).u64(0).u64(0).u64(0).u64(0).u32(255);
        return;
      case T.CLUNK:
        return this.#clunk(request);
      case T.FSYNC:
        return;
      case T.REMOVE:
        this.#clunk(request);
        throw new NinepError(ERRNO.EROFS, "it is read-only");
      case T.LCREATE:
      case T.SYMLINK:
      case T.MKNOD:
      case T.RENAME:
      case T.SETATTR:
      case T.XATTRCREATE:
      case T.LINK:
      case T.MKDIR:
      case T.RENAMEAT:
      case T.UNLINKAT:
      case T.WRITE:
        throw new NinepError(ERRNO.EROFS, "it is read-only");
      default:
        throw new NinepError(ERRNO.EOPNOTSUPP, `message ${request.type} is not known`);
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
    if (this.#fids.size >= MAX_FIDS) throw new NinepError(ERRNO.EMFILE, "too many fids");
    this.#fids.set(number, fid);
  }

  #close(fid: Fid): void {
    if (!fid.file) return;
    hostFiles().close(fid.file.fd);
    fid.file = undefined;
    this.#open--;
  }

  #version(request: Reader, reply: Writer): void {
    const wanted = request.u32();
    const version = request.text();
    for (const fid of this.#fids.values()) this.#close(fid);
    this.#fids.clear();
    const known = version.startsWith(VERSION) && wanted >= MIN_MESSAGE;
    this.#msize = known ? Math.min(wanted, MAX_MESSAGE) : 0;
    reply.u32(Math.min(wanted, MAX_MESSAGE)).text(known ? VERSION : "unknown");
  }

  #attach(request: Reader, reply: Writer): void {
    const number = request.u32();
    request.u32();
    request.text();
    const name = request.text();
    const folder = this.exports.get(name);
    if (!folder) throw new NinepError(ERRNO.ENOENT, `there is no export ${JSON.stringify(name)}`);
    const qid = qidOf(folder.stat([]));
    this.#put(number, { folder, path: [] });
    reply.qid(qid);
  }

  #walk(request: Reader, reply: Writer): void {
    const from = this.#fid(request.u32());
    const number = request.u32();
    const count = request.u16();
    if (count > MAX_WALK) throw new NinepError(ERRNO.EINVAL, "too many names");
    const names = Array.from({ length: count }, () => request.text());
    let path = from.path;
    const qids: Qid[] = [];
    for (const name of names) {
      const next = name === ".." ? path.slice(0, -1) : name === "." ? path : [...path, name];
      try {
        qids.push(qidOf(from.folder.stat(next)));
      } catch (error) {
        // The first name has to be there; after it, what was found is the answer.
        if (qids.length === 0) throw error;
        break;
      }
      path = next;
    }
    if (qids.length === count) {
      const same = this.#fids.get(number) === from;
      if (same && from.file) throw new NinepError(ERRNO.EBADF, "an open fid does not walk");
      if (same) this.#fids.delete(number);
      this.#put(number, { folder: from.folder, path });
    }
    reply.u16(qids.length);
    for (const qid of qids) reply.qid(qid);
  }

  #lopen(request: Reader, reply: Writer): void {
    const fid = this.#fid(request.u32());
    const flags = request.u32();
    if (flags & WRITING) throw new NinepError(ERRNO.EROFS, "it is read-only");
    if (fid.file || fid.entries) throw new NinepError(ERRNO.EBADF, "it is open already");
    const stat = fid.folder.stat(fid.path);
    if (stat.kind === "symlink") throw new NinepError(ERRNO.ELOOP, "links are not followed");
    if (stat.kind === "file") {
      if (this.#open >= MAX_OPEN) throw new NinepError(ERRNO.EMFILE, "too many open files");
      fid.file = fid.folder.open(fid.path);
      this.#open++;
    } else {
      const own = { qid: qidOf(stat), type: 4 };
      fid.entries = [
        { name: ".", ...own },
        { name: "..", ...own },
        ...fid.folder.list(fid.path).map(({ name, stat }) => ({
          name,
          qid: qidOf(stat),
          type: direntType(stat),
        })),
      ];
    }
    reply.qid(qidOf(stat)).u32(0);
  }

  #read(request: Reader, reply: Writer): void {
    const { file } = this.#fid(request.u32());
    const offset = request.u64();
    const count = Math.min(request.u32(), this.#msize - READ_HEADER);
    if (!file) throw new NinepError(ERRNO.EBADF, "it is not open");
    if (offset > BigInt(Number.MAX_SAFE_INTEGER)) throw new NinepError(ERRNO.EINVAL, "offset");
    reply.u32(0);
    const room = reply.hole(count);
    const got = hostFiles().read(file.fd, room, Number(offset));
    reply.shrink(room.length - got);
    reply.patch32(READ_HEADER - 4, got);
    this.options.onRead?.(got);
  }

  #readdir(request: Reader, reply: Writer): void {
    const { entries } = this.#fid(request.u32());
    const offset = request.u64();
    const count = Math.min(request.u32(), this.#msize - READ_HEADER);
    if (!entries) throw new NinepError(ERRNO.EBADF, "it is no open folder");
    reply.u32(0);
    const start = reply.size;
    const first = offset > BigInt(entries.length) ? entries.length : Number(offset);
    for (let index = first; index < entries.length; index++) {
      const { name, qid, type } = entries[index];
      const before = reply.size;
      reply.qid(qid).u64(index + 1).u8(type).text(name);
      if (reply.size - start <= count) continue;
      if (before === start) throw new NinepError(ERRNO.EINVAL, "no room for an entry");
      reply.shrink(reply.size - before);
      break;
    }
    reply.patch32(READ_HEADER - 4, reply.size - start);
    this.options.onRead?.(reply.size - start);
  }

  #getattr(request: Reader, reply: Writer): void {
    const { folder, path } = this.#fid(request.u32());
    const stat = folder.stat(path);
    const seconds = Math.floor(stat.mtime / 1000);
    const nanoseconds = Math.round((stat.mtime - seconds * 1000) * 1e6);
    reply.u64(GETATTR_BASIC).qid(qidOf(stat)).u32(stat.mode).u32(0).u32(0);
    reply.u64(stat.nlink).u64(0).u64(stat.size).u64(4096).u64(Math.ceil(stat.size / 512));
    for (let time = 0; time < 3; time++) reply.u64(seconds).u64(nanoseconds);
    reply.u64(0).u64(0).u64(0).u64(0);
  }

  #clunk(request: Reader): void {
    const number = request.u32();
    this.#close(this.#fid(number));
    this.#fids.delete(number);
  }
}

/**
 * Serves until the other side ends its direction. Throws `upstream_failed` for what is no 9P; every file
 * is closed by then. The caller closes the folders, and resets the stream where this throws.
 */
export function serveNinep(
  stream: Duplex,
  exports: ReadonlyMap<string, ConfinedFolder>,
  options: ServeOptions = {},
): Promise<void> {
  return new Connection(stream, exports, options).run();
}
