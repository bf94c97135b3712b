/** What servers of 9P2000.L that only let read answer alike. */
import { NinepError } from "./folder.ts";
import {
  ERRNO,
  GETATTR_BASIC,
  MAX_WALK,
  NO_FID,
  QID,
  type Qid,
  READ_HEADER,
  type Reader,
  VERSION,
  type Writer,
} from "./messages.ts";

/** Bytes of a message, at least, for one that asks for less to be of use; kernels take 4096 and more. */
const MIN_MESSAGE = 4096;
/** Flags of open that ask for more than reading: write modes, O_CREAT, O_TRUNC. */
const WRITING = 0o3 | 0o100 | 0o1000;

/** Of each kind its type in a qid, its bits of a mode, and its number in a directory entry. */
export const KINDS = {
  file: { qid: QID.FILE, bits: 0o100000, entry: 8 },
  directory: { qid: QID.DIR, bits: 0o040000, entry: 4 },
  symlink: { qid: QID.SYMLINK, bits: 0o120000, entry: 10 },
} as const;

export const readOnly = () => new NinepError(ERRNO.EROFS, "it is read-only");

/** What a client has walked to, by its numbers. */
export class Fids<F> {
  #fids = new Map<number, F>();

  /** `most`: that a client may hold at once. */
  constructor(readonly most = Infinity) {}

  get(number: number): F {
    const fid = this.#fids.get(number);
    if (!fid) throw new NinepError(ERRNO.EBADF, `fid ${number} is not in use`);
    return fid;
  }

  put(number: number, fid: F): void {
    if (this.#fids.has(number) || number === NO_FID) {
      throw new NinepError(ERRNO.EBADF, `fid ${number} is in use`);
    }
    if (this.#fids.size >= this.most) throw new NinepError(ERRNO.EMFILE, "too many fids");
    this.#fids.set(number, fid);
  }

  /** True where the number stands for this one. */
  is(number: number, fid: F): boolean {
    return this.#fids.get(number) === fid;
  }

  delete(number: number): void {
    this.#fids.delete(number);
  }

  values(): Iterable<F> {
    return this.#fids.values();
  }

  clear(): void {
    this.#fids.clear();
  }
}

/** The size of messages that was agreed on; 0 where nothing was. */
export function answerVersion(request: Reader, reply: Writer, maxMessage: number): number {
  const wanted = request.u32();
  const version = request.text();
  const known = version.startsWith(VERSION) && wanted >= MIN_MESSAGE;
  const size = Math.min(wanted, maxMessage);
  reply.u32(size).text(known ? VERSION : "unknown");
  return known ? size : 0;
}

export function namesOf(request: Reader): string[] {
  const count = request.u16();
  if (count > MAX_WALK) throw new NinepError(ERRNO.EINVAL, "too many names");
  return Array.from({ length: count }, () => request.text());
}

export function answerWalk(reply: Writer, qids: readonly Qid[]): void {
  reply.u16(qids.length);
  for (const qid of qids) reply.qid(qid);
}

/** The flags of an open. */
export function refuseWriting(flags: number): void {
  if (flags & WRITING) throw readOnly();
}

/** Where a read begins, and how much fits into its answer. */
export function rangeOf(request: Reader, msize: number): { offset: bigint; count: number } {
  return { offset: request.u64(), count: Math.min(request.u32(), msize - READ_HEADER) };
}

/** As a number. Throws for more than any file has. */
export function placeIn(offset: bigint): number {
  if (offset <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(offset);
  throw new NinepError(ERRNO.EINVAL, "offset");
}

export interface DirectoryEntry {
  qid: Qid;
  /** {@linkcode KINDS}' `entry`. */
  type: number;
  name: string;
}

/** As many entries as fit; their bytes. */
export function answerEntries<E>(
  reply: Writer,
  { offset, count }: { offset: bigint; count: number },
  entries: readonly E[],
  describe: (entry: E) => DirectoryEntry,
): number {
  reply.u32(0);
  const start = reply.size;
  const first = offset > BigInt(entries.length) ? entries.length : Number(offset);
  for (let index = first; index < entries.length; index++) {
    const { qid, type, name } = describe(entries[index]);
    const before = reply.size;
    reply.qid(qid).u64(index + 1).u8(type).text(name);
    if (reply.size - start <= count) continue;
    if (before === start) throw new NinepError(ERRNO.EINVAL, "no room for an entry");
    reply.shrink(reply.size - before);
    break;
  }
  reply.patch32(READ_HEADER - 4, reply.size - start);
  return reply.size - start;
}

export interface Attributes {
  qid: Qid;
  mode: number;
  nlink: number;
  size: number;
  /** Seconds since 1970, rounded down, and the nanoseconds above them. */
  mtime: number;
  mtimeNs: number;
}

/** All files are root's. */
export function answerAttributes(reply: Writer, attributes: Attributes): void {
  const { qid, mode, nlink, size, mtime, mtimeNs } = attributes;
  reply.u64(GETATTR_BASIC).qid(qid).u32(mode).u32(0).u32(0);
  reply.u64(nlink).u64(0).u64(size).u64(4096).u64(Math.ceil(size / 512));
  // Before 1970 they are negative: two's complement, as file systems have it.
  for (let time = 0; time < 3; time++) reply.u64(mtime).u64(mtimeNs);
  reply.u64(0).u64(0).u64(0).u64(0);
}

/** A file system that tells no numbers. */
export function answerStatfs(reply: Writer): void {
  reply.u32(0x01021997).u32(4096).u64(0).u64(0).u64(0).u64(0).u64(0).u64(0).u32(255);
}
