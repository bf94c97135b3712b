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
  join,
  MessageReader,
  type Qid,
  READ_HEADER,
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
  type DirectoryEntry,
  Fids,
  KINDS,
  namesOf,
  placeIn,
  rangeOf,
  readOnly,
  refuseWriting,
} from "./read_only.ts";

/** Bytes of a message, at most. */
const MAX_MESSAGE = 1 << 20;
/** Files that a client may hold at once. */
const MAX_FIDS = 16_384;
const MAX_OPEN = 256;
/** Answers are gathered up to this size. */
const BATCH = 256 * 1024;

interface Fid {
  folder: ConfinedFolder;
  path: readonly string[];
  file?: { fd: number };
  entries?: DirectoryEntry[];
}

export interface ServeOptions {
  /** Told of bytes of files and folders that left. */
  onRead?: (bytes: number) => void;
}

function qidOf({ kind, mtime, mtimeNs, ino }: NodeStat): Qid {
  const version = mtime * 1000 + Math.floor(mtimeNs / 1e6);
  return { type: KINDS[kind].qid, version: version >>> 0, path: BigInt(ino) };
}

class Connection {
  #fids = new Fids<Fid>(MAX_FIDS);
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
        const { folder, path } = this.#fids.get(request.u32());
        return void reply.text(folder.readlink(path));
      }
      case T.STATFS:
        this.#fids.get(request.u32());
        return answerStatfs(reply);
      case T.CLUNK:
        return this.#clunk(request);
      case T.FSYNC:
        return;
      case T.REMOVE:
        this.#clunk(request);
        throw readOnly();
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
        throw readOnly();
      default:
        throw new NinepError(ERRNO.EOPNOTSUPP, `message ${request.type} is not known`);
    }
  }

  #close(fid: Fid): void {
    if (!fid.file) return;
    hostFiles().close(fid.file.fd);
    fid.file = undefined;
    this.#open--;
  }

  #version(request: Reader, reply: Writer): void {
    const msize = answerVersion(request, reply, MAX_MESSAGE);
    for (const fid of this.#fids.values()) this.#close(fid);
    this.#fids.clear();
    this.#msize = msize;
  }

  #attach(request: Reader, reply: Writer): void {
    const number = request.u32();
    request.u32();
    request.text();
    const name = request.text();
    const folder = this.exports.get(name);
    if (!folder) throw new NinepError(ERRNO.ENOENT, `there is no export ${JSON.stringify(name)}`);
    const qid = qidOf(folder.stat([]));
    this.#fids.put(number, { folder, path: [] });
    reply.qid(qid);
  }

  #walk(request: Reader, reply: Writer): void {
    const from = this.#fids.get(request.u32());
    const number = request.u32();
    const names = namesOf(request);
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
    if (qids.length === names.length) {
      const same = this.#fids.is(number, from);
      if (same && from.file) throw new NinepError(ERRNO.EBADF, "an open fid does not walk");
      if (same) this.#fids.delete(number);
      this.#fids.put(number, { folder: from.folder, path });
    }
    answerWalk(reply, qids);
  }

  #lopen(request: Reader, reply: Writer): void {
    const fid = this.#fids.get(request.u32());
    refuseWriting(request.u32());
    if (fid.file || fid.entries) throw new NinepError(ERRNO.EBADF, "it is open already");
    const stat = fid.folder.stat(fid.path);
    if (stat.kind === "symlink") throw new NinepError(ERRNO.ELOOP, "links are not followed");
    if (stat.kind === "file") {
      if (this.#open >= MAX_OPEN) throw new NinepError(ERRNO.EMFILE, "too many open files");
      fid.file = fid.folder.open(fid.path);
      this.#open++;
    } else {
      const own = { qid: qidOf(stat), type: KINDS.directory.entry };
      fid.entries = [
        { name: ".", ...own },
        { name: "..", ...own },
        ...fid.folder.list(fid.path).map(({ name, stat }) => ({
          name,
          qid: qidOf(stat),
          type: KINDS[stat.kind].entry,
        })),
      ];
    }
    reply.qid(qidOf(stat)).u32(0);
  }

  #read(request: Reader, reply: Writer): void {
    const { file } = this.#fids.get(request.u32());
    const { offset, count } = rangeOf(request, this.#msize);
    if (!file) throw new NinepError(ERRNO.EBADF, "it is not open");
    const place = placeIn(offset);
    reply.u32(0);
    const room = reply.hole(count);
    const got = hostFiles().read(file.fd, room, place);
    reply.shrink(room.length - got);
    reply.patch32(READ_HEADER - 4, got);
    this.options.onRead?.(got);
  }

  #readdir(request: Reader, reply: Writer): void {
    const { entries } = this.#fids.get(request.u32());
    const range = rangeOf(request, this.#msize);
    if (!entries) throw new NinepError(ERRNO.EBADF, "it is no open folder");
    const bytes = answerEntries(reply, range, entries, (entry) => entry);
    this.options.onRead?.(bytes);
  }

  #getattr(request: Reader, reply: Writer): void {
    const { folder, path } = this.#fids.get(request.u32());
    const stat = folder.stat(path);
    answerAttributes(reply, { ...stat, qid: qidOf(stat) });
  }

  #clunk(request: Reader): void {
    const number = request.u32();
    this.#close(this.#fids.get(number));
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
