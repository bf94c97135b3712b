/** The messages of FUSE (linux/fuse.h, protocol 7.31): the kernel's requests, and the replies. */
import { decodeRaw, encodeRaw } from "../../base/raw_string.ts";
import { type Changes, type FolderEntry } from "../files/node.ts";
import { ERRNO, FileError, type FileTime, type NodeKind, type NodeStat } from "../files/stat.ts";

export const OP = {
  LOOKUP: 1,
  FORGET: 2,
  GETATTR: 3,
  SETATTR: 4,
  READLINK: 5,
  SYMLINK: 6,
  MKNOD: 8,
  MKDIR: 9,
  UNLINK: 10,
  RMDIR: 11,
  RENAME: 12,
  LINK: 13,
  OPEN: 14,
  READ: 15,
  WRITE: 16,
  STATFS: 17,
  RELEASE: 18,
  FSYNC: 20,
  SETXATTR: 21,
  GETXATTR: 22,
  LISTXATTR: 23,
  REMOVEXATTR: 24,
  FLUSH: 25,
  INIT: 26,
  OPENDIR: 27,
  READDIR: 28,
  RELEASEDIR: 29,
  FSYNCDIR: 30,
  GETLK: 31,
  SETLK: 32,
  SETLKW: 33,
  CREATE: 35,
  INTERRUPT: 36,
  DESTROY: 38,
  BATCH_FORGET: 42,
} as const;

const MAJOR = 7;
const MINOR = 31;
const IN_HEADER = 40;
const OUT_HEADER = 16;
const ATTR = 88;

/**
 * Bytes of one write by the kernel, at most; and of its read-ahead: a larger one would fetch data that nobody
 * asked for.
 */
const MAX_WRITE = 512 * 1024;
const READ_AHEAD = 128 * 1024;
const PAGE = 4096;
/** Bytes that the buffer for one request needs. */
export const BUFFER = MAX_WRITE + PAGE;

const INIT = {
  ASYNC_READ: 1,
  POSIX_LOCKS: 1 << 1,
  ATOMIC_O_TRUNC: 1 << 3,
  BIG_WRITES: 1 << 5,
  FLOCK_LOCKS: 1 << 10,
  AUTO_INVAL_DATA: 1 << 12,
  PARALLEL_DIROPS: 1 << 18,
  HANDLE_KILLPRIV: 1 << 19,
  MAX_PAGES: 1 << 22,
  /** Who writes loses setuid and setgid of the file, here as in every export that can be written to. */
  HANDLE_KILLPRIV_V2: 1 << 28,
} as const;

export const FOPEN_KEEP_CACHE = 2;
/** Flag of GETATTR: it is about an open file, by its handle. */
export const GETATTR_FH = 1;

/** Bits that say which fields of a SETATTR are set. */
const FATTR = {
  MODE: 1,
  UID: 1 << 1,
  GID: 1 << 2,
  SIZE: 1 << 3,
  ATIME: 1 << 4,
  MTIME: 1 << 5,
  FH: 1 << 6,
  ATIME_NOW: 1 << 7,
  MTIME_NOW: 1 << 8,
} as const;

/** What a SETATTR asks for; the size by itself. `handle`: of an open file, if the kernel names one. */
export function changesOf(
  request: Request,
): { changes: Changes; size?: number; handle?: bigint } {
  const valid = request.u32(0);
  const time = (
    bit: number,
    now: number,
    at: number,
    nsAt: number,
  ): FileTime | "now" | undefined =>
    valid & now ? "now" : valid & bit ? { s: request.i64(at), ns: request.u32(nsAt) } : undefined;
  const changes: Changes = {
    ...valid & FATTR.MODE && { mode: request.u32(68) & 0o7777 },
    ...valid & FATTR.UID && { uid: request.u32(76) },
    ...valid & FATTR.GID && { gid: request.u32(80) },
    atime: time(FATTR.ATIME, FATTR.ATIME_NOW, 32, 56),
    mtime: time(FATTR.MTIME, FATTR.MTIME_NOW, 40, 60),
  };
  return {
    changes,
    ...valid & FATTR.SIZE && { size: request.i64(16) },
    ...valid & FATTR.FH && { handle: request.u64(8) },
  };
}

const DIRENT: Record<NodeKind, number> = { special: 0, directory: 4, file: 8, symlink: 10 };

/** One request. Fields are at offsets behind the header. */
export class Request {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #view: DataView;
  readonly op: number;
  readonly unique: bigint;
  /** Number of the node that the request is about. */
  readonly node: bigint;
  /** Number of the thread that waits for the answer. */
  readonly thread: number;

  /** `bytes` must not be reused by the caller. */
  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.op = this.#view.getUint32(4, true);
    this.unique = this.#view.getBigUint64(8, true);
    this.node = this.#view.getBigUint64(16, true);
    this.thread = this.#view.getUint32(32, true);
  }

  u32(at: number): number {
    return this.#view.getUint32(IN_HEADER + at, true);
  }

  u64(at: number): bigint {
    return this.#view.getBigUint64(IN_HEADER + at, true);
  }

  i64(at: number): number {
    return Number(this.#view.getBigInt64(IN_HEADER + at, true));
  }

  bytes(at: number, size: number): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(IN_HEADER + at, IN_HEADER + at + size);
  }

  /** Names from an offset on; each ends with NUL. */
  names(at: number, count: number): string[] {
    const names: string[] = [];
    for (let start = IN_HEADER + at; names.length < count;) {
      const end = this.#bytes.indexOf(0, start);
      names.push(decodeRaw(this.#bytes.subarray(start, end)));
      start = end + 1;
    }
    return names;
  }

  /** Offset after the name that begins at `at`. */
  afterName(at: number): number {
    return this.#bytes.indexOf(0, IN_HEADER + at) + 1 - IN_HEADER;
  }
}

/** A reply: header, and room for a body. */
export class Reply {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #view: DataView;
  #size: number;

  constructor(size: number) {
    this.#bytes = new Uint8Array(OUT_HEADER + size);
    this.#view = new DataView(this.#bytes.buffer);
    this.#size = size;
  }

  u16(at: number, value: number): this {
    this.#view.setUint16(OUT_HEADER + at, value, true);
    return this;
  }

  u32(at: number, value: number): this {
    this.#view.setUint32(OUT_HEADER + at, value, true);
    return this;
  }

  u64(at: number, value: bigint | number): this {
    this.#view.setBigUint64(OUT_HEADER + at, BigInt.asUintN(64, BigInt(value)), true);
    return this;
  }

  /** The body's bytes, to be filled in. */
  body(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(OUT_HEADER, OUT_HEADER + this.#size);
  }

  cut(size: number): this {
    this.#size = size;
    return this;
  }

  finish(unique: bigint, errno = 0): Uint8Array<ArrayBuffer> {
    const length = OUT_HEADER + this.#size;
    this.#view.setUint32(0, length, true);
    this.#view.setInt32(4, -errno, true);
    this.#view.setBigUint64(8, unique, true);
    return this.#bytes.subarray(0, length);
  }
}

/** Writes how long the kernel may cache an answer, in milliseconds. */
function valid(reply: Reply, at: number, nsAt: number, ms: number): void {
  reply.u64(at, Math.floor(ms / 1000)).u32(nsAt, (ms % 1000) * 1e6);
}

function attributes(reply: Reply, at: number, ino: bigint, stat: NodeStat): void {
  const { size, blocks, atime, mtime, ctime, mode, nlink, uid, gid } = stat;
  reply.u64(at, ino).u64(at + 8, size).u64(at + 16, blocks);
  reply.u64(at + 24, atime.s).u64(at + 32, mtime.s).u64(at + 40, ctime.s);
  reply.u32(at + 48, atime.ns).u32(at + 52, mtime.ns).u32(at + 56, ctime.ns);
  reply.u32(at + 60, mode).u32(at + 64, nlink).u32(at + 68, uid).u32(at + 72, gid);
  reply.u32(at + 80, PAGE);
}

export const ENTRY = 40 + ATTR;

/** `number`: the kernel's number for the node. `more`: bytes after the entry. */
export function entryReply(
  number: bigint,
  ino: bigint,
  stat: NodeStat,
  keepMs: { entry: number; attributes: number },
  more = 0,
): Reply {
  const reply = new Reply(ENTRY + more).u64(0, number);
  valid(reply, 16, 32, keepMs.entry);
  valid(reply, 24, 36, keepMs.attributes);
  attributes(reply, 40, ino, stat);
  return reply;
}

/** For a look-up: there is no such entry. */
export function missingReply(ms: number): Reply {
  const reply = new Reply(ENTRY);
  valid(reply, 16, 32, ms);
  return reply;
}

export function attributesReply(ino: bigint, stat: NodeStat, ms: number): Reply {
  const reply = new Reply(16 + ATTR);
  valid(reply, 0, 8, ms);
  attributes(reply, 16, ino, stat);
  return reply;
}

/** `locks`, `flocks`: the kernel sends requests for locks of fcntl(2), flock(2); otherwise it keeps them itself. */
export function initReply(
  request: Request,
  { locks, flocks }: { locks: boolean; flocks: boolean },
): Reply {
  const flags = INIT.ASYNC_READ | INIT.ATOMIC_O_TRUNC | INIT.BIG_WRITES | INIT.AUTO_INVAL_DATA |
    INIT.PARALLEL_DIROPS | INIT.HANDLE_KILLPRIV | INIT.HANDLE_KILLPRIV_V2 | INIT.MAX_PAGES |
    (locks ? INIT.POSIX_LOCKS : 0) | (flocks ? INIT.FLOCK_LOCKS : 0);
  const reply = new Reply(64).u32(0, MAJOR).u32(4, Math.min(request.u32(4), MINOR));
  reply.u32(8, Math.min(request.u32(8), READ_AHEAD)).u32(12, flags & request.u32(12));
  // Limits on background requests, and the number from which the kernel holds them back.
  reply.u16(16, 32).u16(18, 24).u32(20, MAX_WRITE);
  return reply.u32(24, 1).u16(28, MAX_WRITE / PAGE);
}

/** Bytes of a folder's listing that the kernel accepts, at most. */
export const listingRoom = (request: Request) => Math.min(request.u32(16), READ_AHEAD);

/** Writes an entry at `at`; returns its size, or 0 where it does not fit. */
export function putEntry(reply: Reply, at: number, room: number, entry: FolderEntry): number {
  const name = encodeRaw(entry.name);
  const size = (24 + name.length + 7) & ~7;
  if (at + size > room) return 0;
  reply.u64(at, entry.id).u64(at + 8, entry.next);
  reply.u32(at + 16, name.length).u32(at + 20, DIRENT[entry.kind]);
  reply.body().set(name, at + 24);
  return size;
}

/** A value; only its size where the kernel asks for none of it. Throws ERANGE where it does not fit. */
export function sized(value: Uint8Array, room: number): Reply {
  if (room === 0) return new Reply(8).u32(0, value.length);
  if (value.length > room) throw new FileError(ERRNO.ERANGE);
  const reply = new Reply(value.length);
  reply.body().set(value);
  return reply;
}

/** What a file system tells the kernel by itself, by the number in the error's place. */
const NOTIFY = { INVAL_INODE: 2, INVAL_ENTRY: 3 } as const;

function notice(code: number, body: Reply): Uint8Array<ArrayBuffer> {
  // A message that answers nothing has no number of a request.
  return body.finish(0n, -code);
}

/** The kernel forgets a file's attributes; its content too where these turn out to be others. Waits for nothing. */
export function forgetAttributes(number: bigint): Uint8Array<ArrayBuffer> {
  return notice(NOTIFY.INVAL_INODE, new Reply(24).u64(0, number).u64(8, -1));
}

/** The kernel forgets what it keeps of a file: attributes and content. Waits for reads of the file under way. */
export function forgetContent(number: bigint): Uint8Array<ArrayBuffer> {
  return notice(NOTIFY.INVAL_INODE, new Reply(24).u64(0, number));
}

/** The kernel forgets an entry of a folder, also that there is none. */
export function forgetEntry(folder: bigint, name: string): Uint8Array<ArrayBuffer> {
  const bytes = encodeRaw(name);
  const body = new Reply(16 + bytes.length + 1).u64(0, folder).u32(8, bytes.length);
  body.body().set(bytes, 16);
  return notice(NOTIFY.INVAL_ENTRY, body);
}
