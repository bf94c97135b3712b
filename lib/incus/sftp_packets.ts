/** Packets of the SSH File Transfer Protocol, version 3 (draft-ietf-secsh-filexfer-02). */
import { decodeRaw, encodeRaw } from "../base/raw_string.ts";

/** Types of packets. */
export const TYPE = {
  init: 1,
  version: 2,
  open: 3,
  close: 4,
  read: 5,
  write: 6,
  lstat: 7,
  setstat: 9,
  opendir: 11,
  readdir: 12,
  remove: 13,
  mkdir: 14,
  stat: 17,
  readlink: 19,
  symlink: 20,
  status: 101,
  handle: 102,
  data: 103,
  name: 104,
  attrs: 105,
  extended: 200,
} as const;

/** Codes of a status. */
export const STATUS = { ok: 0, end: 1, missing: 2, denied: 3 } as const;

const FLAGS = { size: 1, owner: 2, mode: 4, times: 8, extended: 0x80000000 } as const;

export interface Attributes {
  /** Bytes. */
  size?: number;
  uid?: number;
  gid?: number;
  /** Type and permissions, as in st_mode. */
  mode?: number;
  /** Seconds since 1970. */
  mtime?: number;
}

/** A part of a packet: a number of 32 bits, one of 64, bytes or text with their length in front, or attributes. */
export type Part = number | bigint | string | Uint8Array | Attributes;

function attributes({ uid, gid, mode, mtime }: Attributes): number[] {
  const owner = uid !== undefined && gid !== undefined;
  return [
    (owner ? FLAGS.owner : 0) | (mode === undefined ? 0 : FLAGS.mode) |
    (mtime === undefined ? 0 : FLAGS.times),
    ...(owner ? [uid, gid] : []),
    ...(mode === undefined ? [] : [mode]),
    ...(mtime === undefined ? [] : [mtime, mtime]),
  ];
}

/** A whole packet, its length in front. */
export function packet(type: number, parts: readonly Part[]): Uint8Array {
  const flat = parts.flatMap((part): (number | bigint | Uint8Array)[] =>
    typeof part === "string"
      ? [encodeRaw(part)]
      : typeof part === "object" && !(part instanceof Uint8Array)
      ? attributes(part)
      : [part]
  );
  const sizeOf = (part: number | bigint | Uint8Array) =>
    typeof part === "number" ? 4 : typeof part === "bigint" ? 8 : 4 + part.length;
  const length = flat.reduce((sum: number, part) => sum + sizeOf(part), 1);
  const bytes = new Uint8Array(4 + length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, length);
  view.setUint8(4, type);
  let at = 5;
  for (const part of flat) {
    if (typeof part === "number") view.setUint32(at, part);
    else if (typeof part === "bigint") view.setBigUint64(at, part);
    else {
      view.setUint32(at, part.length);
      bytes.set(part, at + 4);
    }
    at += sizeOf(part);
  }
  return bytes;
}

/** Reads the parts of a packet's body. Throws `RangeError` where it is too short. */
export class Parts {
  readonly #view: DataView;
  #at = 0;

  constructor(readonly bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  number(): number {
    this.#at += 4;
    return this.#view.getUint32(this.#at - 4);
  }

  long(): number {
    this.#at += 8;
    return Number(this.#view.getBigUint64(this.#at - 8));
  }

  data(): Uint8Array {
    const length = this.number();
    this.#at += length;
    if (this.#at > this.bytes.length) throw new RangeError("a packet is cut off");
    return this.bytes.subarray(this.#at - length, this.#at);
  }

  /** Names are bytes, and need not be UTF-8. */
  text(): string {
    return decodeRaw(this.data());
  }

  attributes(): Attributes {
    const flags = this.number();
    const found: Attributes = {};
    if (flags & FLAGS.size) found.size = this.long();
    if (flags & FLAGS.owner) [found.uid, found.gid] = [this.number(), this.number()];
    if (flags & FLAGS.mode) found.mode = this.number();
    if (flags & FLAGS.times) [, found.mtime] = [this.number(), this.number()];
    if ((flags & FLAGS.extended) !== 0) {
      for (let left = this.number(); left > 0; left--) [this.data(), this.data()];
    }
    return found;
  }
}
