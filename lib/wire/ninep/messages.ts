/** Messages of 9P2000.L: little-endian, `size[4] type[1] tag[2]` and the fields of each type. */
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../duplex.ts";

/** Requests; the answer's type is one more, or {@linkcode RLERROR}. */
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
} as const;
export const RLERROR = 7;

export const VERSION = "9P2000.L";
export const NO_TAG = 0xffff;
export const NO_FID = 0xffffffff;
/** Names that one walk may have. */
export const MAX_WALK = 16;
/** `size type tag`, and the count of a read or write. */
export const HEADER = 7;
export const READ_HEADER = HEADER + 4;

/** Everything of getattr but the fields that no file system here has (birth time, generation). */
export const GETATTR_BASIC = 0x7ffn;

/** Linux's error numbers: those of the protocol, whatever this machine's are. */
export const ERRNO = {
  EPERM: 1,
  ENOENT: 2,
  EIO: 5,
  EBADF: 9,
  EACCES: 13,
  EEXIST: 17,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  EMFILE: 24,
  EROFS: 30,
  ENAMETOOLONG: 36,
  ELOOP: 40,
  EOPNOTSUPP: 95,
} as const;

/** What a file is without its name: type, version and number. */
export interface Qid {
  type: number;
  version: number;
  path: bigint;
}
export const QID = { DIR: 0x80, SYMLINK: 0x02, FILE: 0 } as const;
export const QID_SIZE = 13;

/** The other side does not speak 9P, or tries what it must not. */
export function violation(what: string): SvcError {
  return new SvcError("upstream_failed", `Cannot read the file stream: ${what}`, {
    help: "check that both sides are svc of about the same version",
  });
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Puts one message together. */
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
    const bytes = encoder.encode(value);
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

  /** Room for bytes that are written in place; `keep` cuts it to what was needed. */
  hole(size: number): Uint8Array {
    const at = this.#room(size);
    return this.#bytes.subarray(at, at + size);
  }

  /** Takes back the last bytes. */
  shrink(by: number): void {
    this.#size -= by;
  }

  /** Sets a number that was not known when it was written. */
  patch32(at: number, value: number): void {
    this.#view.setUint32(at, value, true);
  }

  finish(): Uint8Array<ArrayBuffer> {
    this.#view.setUint32(0, this.#size, true);
    this.#view.setUint8(4, this.type);
    this.#view.setUint16(5, this.tag, true);
    return this.#bytes.subarray(0, this.#size);
  }
}

/** Takes one message apart. Throws `upstream_failed` where it is shorter than its fields. */
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

  text(): string {
    const size = this.u16();
    const bytes = this.raw(size);
    try {
      return decoder.decode(bytes);
    } catch {
      throw violation("a name is not UTF-8");
    }
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

  constructor(stream: Pick<Duplex, "read">, limit: number) {
    this.#stream = stream;
    this.limit = limit;
  }

  /** True where the next message is here already. */
  get ready(): boolean {
    return this.#rest.length >= 4 && this.#rest.length >= sizeOf(this.#rest);
  }

  /** Undefined at the end. Throws `upstream_failed` for sizes that cannot be, and an end within one. */
  async next(): Promise<Reader | undefined> {
    let parts: Uint8Array[] = [];
    let have = this.#rest.length;
    if (have > 0) parts.push(this.#rest);
    let size = have >= 4 ? this.#size(this.#rest) : undefined;
    while (size === undefined || have < size) {
      const chunk = await this.#stream.read();
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

/** The parts as one; `size` is that of all. */
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
