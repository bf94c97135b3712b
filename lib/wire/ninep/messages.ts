/** Messages of 9P2000.L: little-endian, `size[4] type[1] tag[2]` and the fields of each type. */
import { SvcError } from "../../base/errors.ts";
import { decodeRaw, encodeRaw } from "../../base/raw_string.ts";
import type { Duplex } from "../duplex.ts";
import { ERRNO, FileError, type NodeKind } from "../files/stat.ts";

/** Types of requests; the answer's type is one higher, or {@linkcode RLERROR}. */
export const T = {
  STATFS: 8,
  LOPEN: 12,
  LCREATE: 14,
  SYMLINK: 16,
  MKNOD: 18,
  RENAME: 20,
  READLINK: 22,
  GETATTR: 24,
  SETATTR: 26,
  XATTRWALK: 30,
  XATTRCREATE: 32,
  READDIR: 40,
  FSYNC: 50,
  LOCK: 52,
  GETLOCK: 54,
  LINK: 70,
  MKDIR: 72,
  RENAMEAT: 74,
  UNLINKAT: 76,
  VERSION: 100,
  AUTH: 102,
  ATTACH: 104,
  FLUSH: 108,
  WALK: 110,
  READ: 116,
  WRITE: 118,
  CLUNK: 120,
  REMOVE: 122,
  /** In {@linkcode OWN_VERSION}: lists a folder and watches it from then on (lib/wire/known/messages.ts). */
  LIST: 220,
  /**
   * In {@linkcode OWN_VERSION}: from then on every request waits for the changes that came before it, and whoever makes
   * a file may give it a number: `number[8]` after the fields of Tlcreate, `number[8] newfid[4]` after those of Tmkdir.
   */
  ORDER: 224,
} as const;
export const RLERROR = 7;
/** News of watched folders, an answer to no request: its tag is {@linkcode NO_TAG}. */
export const RTOLD = 223;

export const VERSION = "9P2000.L";
/**
 * The version that both ends of svc's mounts agree on, where both know it: with locks of flock(2), whole listings,
 * and notices of changes (lib/wire/known).
 */
export const OWN_VERSION = "9P2000.L.svc1";
export const NO_TAG = 0xffff;
export const NO_FID = 0xffffffff;
/** Names in one walk, at most. */
export const MAX_WALK = 16;
/** Bytes of `size type tag`; and of that with the count of a read or write. */
export const HEADER = 7;
export const READ_HEADER = HEADER + 4;

/** All fields of getattr except birth time and generation, which no file system here has. */
export const GETATTR_BASIC = 0x7ffn;

/** Identifies a file without its name: type, version and number. */
export interface Qid {
  type: number;
  version: number;
  path: bigint;
}
export const QID = { DIR: 0x80, SYMLINK: 0x02, FILE: 0 } as const;

/** The error for a side that does not speak 9P, or breaks the protocol. */
export function violation(what: string): SvcError {
  return new SvcError("upstream_failed", `Cannot read the file stream: ${what}`, {
    help: "check that both sides are svc of about the same version",
  });
}

/** The number of each kind in a directory entry, as in Linux's dirent. */
export const ENTRY_TYPES: Record<NodeKind, number> = {
  special: 0,
  directory: 4,
  file: 8,
  symlink: 10,
};

/** Lock types of {@linkcode T.LOCK}, by number. */
export const LOCK_TYPES = ["read", "write", "none"] as const;
/** Bit of a lock's flags in {@linkcode OWN_VERSION}: it is one of flock(2). */
export const LOCK_FLOCK = 0x10000;
export const LOCK_STATUS = { SUCCESS: 0, BLOCKED: 1, ERROR: 2 } as const;

/** Bits of {@linkcode T.SETATTR} that say which fields are set. */
export const SET = {
  MODE: 1,
  UID: 2,
  GID: 4,
  SIZE: 8,
  ATIME: 0x10,
  MTIME: 0x20,
  /** Without this bit (or MTIME_GIVEN) the server uses its clock. */
  ATIME_GIVEN: 0x80,
  MTIME_GIVEN: 0x100,
} as const;

/** Flag of {@linkcode T.UNLINKAT}: removes a folder. */
export const REMOVE_FOLDER = 0x200;

/** Writes one message. */
export class Writer {
  #bytes = new Uint8Array(64);
  #view = new DataView(this.#bytes.buffer);
  #size = HEADER;

  constructor(readonly type: number, readonly tag: number) {}

  #room(size: number): number {
    const at = this.#size;
    this.#size += size;
    if (this.#size > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#size, this.#bytes.length * 2));
      larger.set(this.#bytes);
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    }
    return at;
  }

  get size(): number {
    return this.#size;
  }

  u8(value: number): this {
    const at = this.#room(1);
    this.#view.setUint8(at, value);
    return this;
  }

  u16(value: number): this {
    const at = this.#room(2);
    this.#view.setUint16(at, value, true);
    return this;
  }

  u32(value: number): this {
    const at = this.#room(4);
    this.#view.setUint32(at, value, true);
    return this;
  }

  u64(value: bigint | number): this {
    const at = this.#room(8);
    this.#view.setBigUint64(at, BigInt(value), true);
    return this;
  }

  text(value: string): this {
    const bytes = encodeRaw(value);
    if (bytes.length > 0xffff) throw new FileError(ERRNO.ENAMETOOLONG, "the text is too long");
    return this.u16(bytes.length).raw(bytes);
  }

  qid({ type, version, path }: Qid): this {
    return this.u8(type).u32(version).u64(path);
  }

  raw(bytes: Uint8Array): this {
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
    return this;
  }

  /** Room for bytes that the caller fills in; `keep` cuts it to the bytes used. */
  hole(size: number): Uint8Array<ArrayBuffer> {
    const at = this.#room(size);
    return this.#bytes.subarray(at, at + size);
  }

  /** Removes the last bytes. */
  shrink(by: number): void {
    this.#size -= by;
  }

  /** Fills in a number that was not known when its place was written. */
  patch32(at: number, value: number): void {
    this.#view.setUint32(at, value, true);
  }

  patch16(at: number, value: number): void {
    this.#view.setUint16(at, value, true);
  }

  finish(): Uint8Array<ArrayBuffer> {
    this.#view.setUint32(0, this.#size, true);
    this.#view.setUint8(4, this.type);
    this.#view.setUint16(5, this.tag, true);
    return this.#bytes.subarray(0, this.#size);
  }
}

/** Reads one message. Throws `upstream_failed` where it is shorter than its fields. */
export class Reader {
  readonly type: number;
  readonly tag: number;
  #bytes: Uint8Array;
  #view: DataView;
  #at = HEADER;

  /** `bytes` is one whole message. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.type = bytes[4];
    this.tag = this.#view.getUint16(5, true);
  }

  #take(size: number): number {
    const at = this.#at;
    if (at + size > this.#bytes.length) throw violation("a message is shorter than its fields");
    this.#at += size;
    return at;
  }

  /** Size of the whole message in bytes. */
  get size(): number {
    return this.#bytes.length;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  u8(): number {
    return this.#view.getUint8(this.#take(1));
  }

  u16(): number {
    return this.#view.getUint16(this.#take(2), true);
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  u64(): bigint {
    return this.#view.getBigUint64(this.#take(8), true);
  }

  /** A string of any bytes (lib/base/raw_string.ts). */
  text(): string {
    return decodeRaw(this.raw(this.u16()));
  }

  /** A copy of the next bytes. */
  copy(size: number): Uint8Array<ArrayBuffer> {
    return this.raw(size).slice();
  }

  qid(): Qid {
    return { type: this.u8(), version: this.u32(), path: this.u64() };
  }

  raw(size: number): Uint8Array {
    const at = this.#take(size);
    return this.#bytes.subarray(at, at + size);
  }
}

/** Cuts a stream into messages. */
export class MessageReader {
  #stream: Pick<Duplex, "read">;
  #rest: Uint8Array = new Uint8Array(0);
  /** Bytes of a message, at most. */
  limit: number;

  /** `rest`: bytes that came before the stream's. */
  constructor(stream: Pick<Duplex, "read">, limit: number, rest = new Uint8Array(0)) {
    this.#stream = stream;
    this.limit = limit;
    this.#rest = rest;
  }

  /** Bytes of a message that has not come as a whole. */
  get rest(): Uint8Array {
    return this.#rest;
  }

  /** True where the whole next message has arrived. */
  get ready(): boolean {
    return this.#rest.length >= 4 && this.#rest.length >= sizeOf(this.#rest);
  }

  /**
   * The next message; undefined at the end. Throws `upstream_failed` for an impossible size, and where the
   * stream ends inside a message.
   */
  async next(): Promise<Reader | undefined> {
    let parts: Uint8Array[] = [];
    let have = this.#rest.length;
    if (have > 0) parts.push(this.#rest);
    let size = have >= 4 ? this.#size(this.#rest) : undefined;
    while (size === undefined || have < size) {
      const chunk = await this.#stream.read().catch((error) => {
        this.#rest = join(parts, have);
        throw error;
      });
      if (!chunk) {
        if (have === 0) return undefined;
        throw violation("it ends within a message");
      }
      parts.push(chunk);
      have += chunk.length;
      if (size === undefined && have >= 4) {
        if (parts.length > 1) parts = [join(parts, have)];
        size = this.#size(parts[0]);
      }
    }
    const all = parts.length === 1 ? parts[0] : join(parts, have);
    this.#rest = all.subarray(size);
    return new Reader(all.subarray(0, size));
  }

  #size(bytes: Uint8Array): number {
    const size = sizeOf(bytes);
    if (size < HEADER || size > this.limit) throw violation(`a message of ${size} bytes`);
    return size;
  }
}

function sizeOf(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
}

/** Joins the parts; `size` is their total. */
export function join(parts: Uint8Array[], size: number): Uint8Array {
  if (parts.length === 1) return parts[0];
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
