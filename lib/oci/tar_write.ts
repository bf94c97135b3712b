/**
 * Writes tar archives: ustar, and a pax header only for what ustar cannot express. The same entry always
 * gives the same bytes: records are sorted, owner names are left out, numbers have one form.
 */
import { compareRaw, encodeRaw } from "../base/raw_string.ts";
import { concat } from "../base/collect.ts";
import { SvcError } from "../base/errors.ts";
import { BLOCK, padding, PAX_XATTR, type TarHeader, type TarType } from "./tar.ts";

const FLAGS: Record<TarType, number> = {
  file: 48,
  hardlink: 49,
  symlink: 50,
  char: 51,
  block: 52,
  directory: 53,
  fifo: 54,
};

/** Fields for {@linkcode tarHeader}; absent ones are 0, "" or the usual mode. */
export type TarFields = Pick<TarHeader, "path" | "type"> & Partial<TarHeader>;

/** A stretch of a file that the archive stores; between the stretches are holes. */
export interface TarSegment {
  offset: number;
  length: number;
}

const MAX_ID = 0o7777777;
const MAX_LONG = 0o77777777777;

function attributeName(path: string, key: string): string {
  if (key !== "" && !/[=\0]/.test(key)) return key;
  const [entry, name] = [path, key].map((text) => JSON.stringify(text));
  throw new SvcError(
    "argument_invalid",
    `Cannot write tar entry ${entry}: attribute name ${name} cannot stand in an archive`,
  );
}

/**
 * The header blocks of one entry (a pax header too where it is needed). A directory's name gets a slash.
 * `more`: further pax records.
 * Throws `argument_invalid` for a name that no archive can hold.
 */
export function tarHeader(
  entry: TarFields,
  more: readonly [string, string][] = [],
): Uint8Array {
  const size = entry.type === "file" ? entry.size ?? 0 : 0;
  const name = entry.type === "directory" && !entry.path.endsWith("/")
    ? `${entry.path}/`
    : entry.path;
  const linkpath = entry.linkpath ?? "";
  if (entry.path === "" || name.includes("\0") || linkpath.includes("\0")) {
    throw new SvcError(
      "argument_invalid",
      `Cannot write tar entry ${JSON.stringify(entry.path)}: a name is empty or holds a NUL`,
    );
  }
  const uid = entry.uid ?? 0, gid = entry.gid ?? 0;
  const mtime = entry.mtime ?? 0, mtimeNs = entry.mtimeNs ?? 0;
  const place = splitName(name);
  const records: [string, Uint8Array][] = more.map(([key, value]) => [key, encodeRaw(value)]);
  const add = (key: string, value: string) => records.push([key, encodeRaw(value)]);
  if (!place) add("path", name);
  if (!isAscii(linkpath) || linkpath.length > 100) add("linkpath", linkpath);
  if (size > MAX_LONG) add("size", String(size));
  if (uid > MAX_ID) add("uid", String(uid));
  if (gid > MAX_ID) add("gid", String(gid));
  if (mtimeNs !== 0 || mtime < 0 || mtime > MAX_LONG) add("mtime", paxTimeText(mtime, mtimeNs));
  for (const [key, value] of entry.xattrs ?? []) {
    records.push([PAX_XATTR + attributeName(entry.path, key), value]);
  }
  const block = (path: string, prefix: string, flag: number, length: number) =>
    ustar({
      path,
      prefix,
      flag,
      mode: (entry.mode ?? (entry.type === "directory" ? 0o755 : 0o644)) & 0o7777,
      uid: uid > MAX_ID ? 0 : uid,
      gid: gid > MAX_ID ? 0 : gid,
      size: length > MAX_LONG ? 0 : length,
      mtime: mtime < 0 || mtime > MAX_LONG ? 0 : mtime,
      linkpath: flag === 120 || !isAscii(linkpath) ? "" : linkpath.slice(0, 100),
      major: entry.devMajor ?? 0,
      minor: entry.devMinor ?? 0,
    });
  const [path, prefix] = place ?? [toAscii(name).slice(0, 100), ""];
  const main = block(path, prefix, FLAGS[entry.type], size);
  if (records.length === 0) return main;
  const body = paxBody(records);
  const base = toAscii(entry.path.split("/").filter(Boolean).pop() ?? "root").slice(0, 80);
  const head = block(`PaxHeaders.0/${base}`, "", 120, body.length);
  const whole = new Uint8Array(2 * BLOCK + body.length + padding(body.length));
  whole.set(head);
  whole.set(body, BLOCK);
  whole.set(main, whole.length - BLOCK);
  return whole;
}

/**
 * The header blocks of a sparse file, with its map (pax version 1.0 of GNU tar): the data of the segments
 * follows. The segments are in order and inside the file. GNU tar begins each in a block of its own: lengths
 * are multiples of 512, except where a segment ends with the file.
 */
function sparseHeader(entry: TarFields, segments: readonly TarSegment[]): Uint8Array {
  const size = entry.size ?? 0;
  // GNU tar takes the file's size from the end of the last segment.
  const numbers = [...segments.flatMap(({ offset, length }) => [offset, length]), size, 0];
  const text = [numbers.length / 2, ...numbers].map((number) => `${number}\n`).join("");
  const data = segments.reduce((sum, { length }) => sum + length, 0);
  const map = text.length + padding(text.length);
  // Readers that do not know sparse files unpack the stored bytes under this name.
  const slash = entry.path.lastIndexOf("/") + 1;
  const path = `${entry.path.slice(0, slash)}GNUSparseFile.0/${entry.path.slice(slash)}`;
  const header = tarHeader({ ...entry, path, size: map + data }, [
    ["GNU.sparse.major", "1"],
    ["GNU.sparse.minor", "0"],
    ["GNU.sparse.name", entry.path],
    ["GNU.sparse.realsize", String(size)],
  ]);
  const whole = new Uint8Array(header.length + map);
  whole.set(header);
  whole.set(new TextEncoder().encode(text), header.length);
  return whole;
}

/** The two zero blocks that end an archive. */
export function tarEnd(): Uint8Array {
  return new Uint8Array(2 * BLOCK);
}

function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 126) return false;
  return true;
}

const toAscii = (text: string) => Array.from(text, (c) => c > "~" ? "_" : c).join("");

/** The name in ustar's two fields, or undefined where it does not fit. */
function splitName(name: string): [name: string, prefix: string] | undefined {
  if (!isAscii(name)) return undefined;
  if (name.length <= 100) return [name, ""];
  if (name.length > 256) return undefined;
  // The longest prefix that leaves a non-empty name.
  const at = name.lastIndexOf("/", Math.min(155, name.length - 2));
  if (at <= 0 || name.length - at - 1 > 100) return undefined;
  return [name.slice(at + 1), name.slice(0, at)];
}

function paxTimeText(seconds: number, nanoseconds: number): string {
  const fraction = (ns: number) => String(ns).padStart(9, "0").replace(/0+$/, "");
  if (nanoseconds === 0) return String(seconds);
  if (seconds >= 0) return `${seconds}.${fraction(nanoseconds)}`;
  return `-${-(seconds + 1)}.${fraction(1_000_000_000 - nanoseconds)}`;
}

/** "length key=value\n" records in byte order; the length counts its own digits. */
function paxBody(records: [string, Uint8Array][]): Uint8Array {
  records.sort(([a], [b]) => compareRaw(a, b));
  const parts = records.map(([key, value]) => {
    const name = encodeRaw(` ${key}=`);
    const rest = name.length + value.length + 1;
    let length = rest + String(rest).length;
    if (rest + String(length).length !== length) length++;
    const digits = encodeRaw(String(length));
    const record = new Uint8Array(length);
    record.set(digits);
    record.set(name, digits.length);
    record.set(value, digits.length + name.length);
    record[length - 1] = 10;
    return record;
  });
  return concat(parts);
}

interface Ustar {
  path: string;
  prefix: string;
  flag: number;
  mode: number;
  uid: number;
  gid: number;
  size: number;
  mtime: number;
  linkpath: string;
  major: number;
  minor: number;
}

/** Written digit by digit for speed: an archive of small files is mostly headers. */
function ustar(fields: Ustar): Uint8Array {
  const block = new Uint8Array(BLOCK);
  let sum = 0;
  const text = (value: string, at: number) => {
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      block[at + i] = code;
      sum += code;
    }
  };
  const octal = (value: number, at: number, length: number) => {
    for (let i = at + length - 2; i >= at; i--) {
      const rest = Math.floor(value / 8);
      const digit = 48 + value - rest * 8;
      block[i] = digit;
      sum += digit;
      value = rest;
    }
  };
  text(fields.path, 0);
  octal(fields.mode, 100, 8);
  octal(fields.uid, 108, 8);
  octal(fields.gid, 116, 8);
  octal(fields.size, 124, 12);
  octal(fields.mtime, 136, 12);
  text("        ", 148);
  block[156] = fields.flag;
  sum += fields.flag;
  text(fields.linkpath, 157);
  text("ustar\0" + "00", 257);
  octal(fields.major, 329, 8);
  octal(fields.minor, 337, 8);
  text(fields.prefix, 345);
  octal(sum, 148, 7);
  block[154] = 0;
  block[155] = 32;
  return block;
}

/**
 * Assembles an archive, entry by entry, for a streaming caller: each call returns the next bytes. Throws
 * `argument_invalid` where the data is not as long as its header said.
 */
export class TarWriter {
  #left = 0;
  #pad = 0;
  #path = "";

  /**
   * The header of the next entry; the entry before must be complete. With `segments` the file is sparse, and
   * only their data follows.
   */
  header(entry: TarFields, segments?: readonly TarSegment[]): Uint8Array {
    this.#complete();
    const bytes = segments ? sparseHeader(entry, segments) : tarHeader(entry);
    const size = segments
      ? segments.reduce((sum, { length }) => sum + length, 0)
      : entry.type === "file"
      ? entry.size ?? 0
      : 0;
    this.#left = size;
    this.#pad = padding(size);
    this.#path = entry.path;
    return bytes;
  }

  /**
   * Counts `chunk` as content. Returns the bytes to send after it: the padding at the content's end, else
   * none.
   */
  data(chunk: Uint8Array): Uint8Array {
    this.#left -= chunk.length;
    if (this.#left < 0) throw this.#mismatch("longer");
    return this.#left === 0 ? new Uint8Array(this.#pad) : new Uint8Array(0);
  }

  /** The archive's end. */
  end(): Uint8Array {
    this.#complete();
    return tarEnd();
  }

  #complete(): void {
    if (this.#left > 0) throw this.#mismatch("shorter");
  }

  #mismatch(how: string): SvcError {
    return new SvcError(
      "argument_invalid",
      `Cannot write tar entry ${JSON.stringify(this.#path)}: its content is ${how} than its size`,
    );
  }
}

/** A whole archive of entries whose contents are in memory or streams. */
export function writeTar(
  entries:
    | Iterable<TarFields & { body?: Uint8Array | ReadableStream<Uint8Array> }>
    | AsyncIterable<TarFields & { body?: Uint8Array | ReadableStream<Uint8Array> }>,
): ReadableStream<Uint8Array> {
  const parts = async function* (): AsyncGenerator<Uint8Array> {
    const writer = new TarWriter();
    for await (const { body, ...entry } of entries) {
      const size = body instanceof Uint8Array ? body.length : entry.size;
      yield writer.header({ ...entry, size });
      if (!body) continue;
      for await (const chunk of body instanceof Uint8Array ? [body] : body) {
        const after = writer.data(chunk);
        if (chunk.length > 0) yield chunk;
        if (after.length > 0) yield after;
      }
    }
    yield writer.end();
  };
  return ReadableStream.from(parts());
}
