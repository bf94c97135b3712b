/**
 * Push parser for tar archives. It is synchronous, so that a Worker unpacks without a promise per chunk.
 * Reads ustar, pax, GNU long names, base-256 numbers and GNU sparse files, and verifies checksums. Headers
 * are bounded, and so is memory.
 */
import { decodeRaw } from "../base/raw_string.ts";
import { archiveError, BLOCK, padding, PAX_XATTR, type TarHeader, type TarType } from "./tar.ts";
import {
  field,
  numberField,
  parsePax,
  paxInteger,
  type PaxRecord,
  paxTime,
  verifyChecksum,
} from "./tar_fields.ts";
import {
  addOldEntries,
  checkSparse,
  paxSparse,
  type SparseMap,
  SparseMapReader,
} from "./tar_sparse.ts";

/** Receives the parts of an archive; for each entry in order: entry, data and holes, end. */
export interface TarHandler {
  entry(header: TarHeader): void;
  /** Content; the bytes are a view that is only valid during the call. */
  data(chunk: Uint8Array): void;
  /** `length` zero bytes that the archive does not store. May be huge: never materialise it whole. */
  hole(length: number): void;
  end(): void;
}

/** Longest pax header or GNU long name. */
const MAX_META = 8 << 20;
/** Bytes of all global pax records: they are kept to the archive's end. */
const MAX_GLOBAL = 1 << 20;

const TYPES: Record<string, TarType | undefined> = {
  "0": "file",
  "\0": "file",
  "7": "file",
  S: "file",
  "1": "hardlink",
  "2": "symlink",
  "3": "char",
  "4": "block",
  "5": "directory",
  D: "directory",
  "6": "fifo",
};

type State = "header" | "meta" | "oldSparse" | "sparseMap" | "data" | "padding" | "ended";

/** The values of an entry's pax records; a later record of a key counts. */
class PaxValues {
  readonly #values = new Map<string, Uint8Array>();

  constructor(records: readonly (readonly [string, Uint8Array])[]) {
    for (const [key, value] of records) this.#values.set(key, value);
  }

  text(key: string): string | undefined {
    const value = this.#values.get(key);
    return value?.length ? decodeRaw(value) : undefined;
  }

  integer(key: string): number | undefined {
    const value = this.text(key);
    return value === undefined ? undefined : paxInteger(value, key);
  }

  get xattrs(): Map<string, Uint8Array> {
    const found = new Map<string, Uint8Array>();
    for (const [key, value] of this.#values) {
      if (key.startsWith(PAX_XATTR)) found.set(key.slice(PAX_XATTR.length), value);
    }
    return found;
  }
}

export class TarParser {
  #handler: TarHandler;
  #state: State = "header";
  /** A block (or a pax body) of which only a part has come. */
  #partial = new Uint8Array(BLOCK);
  #filled = 0;
  #zeroBlock = false;
  #metaType = "";
  readonly #global = new Map<string, Uint8Array>();
  #local: PaxRecord[] = [];
  #longName: string | undefined;
  #longLink: string | undefined;
  /** Bytes of the current entry's data, and of its padding, that are still to come. */
  #left = 0;
  #pad = 0;
  /** False for entries whose data is skipped (dump directories, volume labels). */
  #deliver = true;
  #pending: TarHeader | undefined;
  #sparse: SparseMap | undefined;
  #sparseReader: SparseMapReader | undefined;
  #segment = 0;
  /** Offset in the file of the next stored byte, and the bytes left in its segment. */
  #position = 0;
  #segmentLeft = 0;

  constructor(handler: TarHandler) {
    this.#handler = handler;
  }

  /** Takes the next bytes. Throws `archive_invalid`; the parser must not be used after that. */
  push(chunk: Uint8Array): void {
    let at = 0;
    while (at < chunk.length) {
      switch (this.#state) {
        case "ended":
          return;
        case "data":
          at = this.#data(chunk, at);
          break;
        case "padding": {
          const take = Math.min(this.#pad, chunk.length - at);
          this.#pad -= take;
          at += take;
          if (this.#pad === 0) this.#state = "header";
          break;
        }
        default:
          at = this.#gather(chunk, at);
      }
    }
  }

  /** Ends the input. Throws `archive_invalid` where it ended too early. */
  finish(): void {
    const between = this.#state === "header" && this.#filled === 0 && this.#local.length === 0 &&
      this.#longName === undefined && this.#longLink === undefined;
    if (!between && this.#state !== "ended") {
      throw archiveError("it ends in the middle of an entry");
    }
    this.#state = "ended";
  }

  #gather(chunk: Uint8Array, at: number): number {
    const need = this.#partial.length - this.#filled;
    if (this.#filled === 0 && this.#partial.length === BLOCK && chunk.length - at >= BLOCK) {
      this.#block(chunk.subarray(at, at + BLOCK));
      return at + BLOCK;
    }
    const take = Math.min(need, chunk.length - at);
    this.#partial.set(chunk.subarray(at, at + take), this.#filled);
    this.#filled += take;
    if (this.#filled === this.#partial.length) {
      const whole = this.#partial;
      this.#partial = new Uint8Array(BLOCK);
      this.#filled = 0;
      this.#block(whole);
    }
    return at + take;
  }

  #block(block: Uint8Array): void {
    if (this.#state === "header") this.#header(block);
    else if (this.#state === "meta") this.#meta(block);
    else if (this.#state === "oldSparse") {
      addOldEntries(this.#sparse!, block, 0, 21);
      if (block[504] === 0) this.#begin();
    } else {
      this.#left -= BLOCK;
      if (this.#left < 0) throw archiveError("a sparse file's map is longer than its data");
      if (this.#sparseReader!.push(block)) {
        this.#sparseReader!.into(this.#sparse!);
        this.#sparseReader = undefined;
        this.#begin();
      }
    }
  }

  #header(block: Uint8Array): void {
    if (block.every((byte) => byte === 0)) {
      if (this.#zeroBlock) this.#state = "ended";
      this.#zeroBlock = true;
      return;
    }
    if (this.#zeroBlock) throw archiveError("an entry follows an end mark");
    verifyChecksum(block);
    const size = numberField(block, 124, 12, "size");
    if (size < 0) throw archiveError("an entry's size is negative");
    const flag = String.fromCharCode(block[156]);
    if ("xgLK".includes(flag)) {
      if (size > MAX_META) {
        throw archiveError(`an extended header is longer than ${MAX_META} bytes`);
      }
      this.#metaType = flag;
      this.#left = size;
      this.#state = "meta";
      // One buffer for the body and its padding.
      this.#partial = new Uint8Array(size + padding(size));
      if (size === 0) {
        this.#partial = new Uint8Array(BLOCK);
        this.#meta(new Uint8Array(0));
      }
      return;
    }
    this.#entry(block, flag, size);
  }

  #meta(body: Uint8Array): void {
    const bytes = body.subarray(0, this.#left);
    this.#state = "header";
    const text = () => {
      const end = bytes.indexOf(0);
      return decodeRaw(end < 0 ? bytes : bytes.subarray(0, end));
    };
    if (this.#metaType === "L") this.#longName = text();
    else if (this.#metaType === "K") this.#longLink = text();
    else if (this.#metaType === "g") {
      this.#keep(parsePax(bytes));
    } else this.#local = parsePax(bytes);
  }

  #keep(records: readonly PaxRecord[]): void {
    for (const [key, value] of records) this.#global.set(key, value);
    let size = 0;
    for (const [key, value] of this.#global) size += key.length + value.length;
    if (size > MAX_GLOBAL) {
      throw archiveError(`its global headers are longer than ${MAX_GLOBAL} bytes`);
    }
  }

  #entry(block: Uint8Array, flag: string, size: number): void {
    const records = [...this.#global, ...this.#local];
    const pax = new PaxValues(records);
    let path = pax.text("path") ?? this.#longName ?? headerPath(block);
    const linkpath = pax.text("linkpath") ?? this.#longLink ?? field(block, 157, 100);
    const stored = pax.integer("size") ?? size;
    const sparse = flag === "0" || flag === "\0" ? paxSparse(records) : undefined;
    if (sparse?.name !== undefined) path = sparse.name;
    this.#local = [];
    this.#longName = this.#longLink = undefined;
    const old = flag === "0" || flag === "\0";
    // Before POSIX a directory was a file whose name ends with a slash.
    const type = old && path.endsWith("/") ? "directory" : TYPES[flag];
    if (type === undefined && flag !== "V") {
      throw archiveError(
        `entry ${JSON.stringify(path)} is of unknown type ${JSON.stringify(flag)}`,
      );
    }
    if (stored < 0) throw archiveError("an entry's size is negative");
    if (/\0/.test(path) || /\0/.test(linkpath)) throw archiveError("a name holds a NUL");
    const isFile = type === "file";
    const hasData = isFile || flag === "D" || flag === "V" || old;
    this.#left = hasData ? stored : 0;
    this.#pad = padding(this.#left);
    this.#deliver = type !== undefined;
    const time = pax.text("mtime");
    const [mtime, mtimeNs] = time === undefined
      ? [numberField(block, 136, 12, "mtime"), 0]
      : paxTime(time, "mtime");
    const device = type === "char" || type === "block";
    const ids = [
      pax.integer("uid") ?? numberField(block, 108, 8, "uid"),
      pax.integer("gid") ?? numberField(block, 116, 8, "gid"),
    ];
    if (ids.some((id) => id < 0 || id > 0xfffffffe)) throw archiveError("an owner is out of range");
    this.#pending = {
      path: path.length > 1 ? path.replace(/\/+$/, "") || "/" : path,
      type: type ?? "file",
      size: isFile ? stored : 0,
      mode: numberField(block, 100, 8, "mode") & 0o7777,
      uid: ids[0],
      gid: ids[1],
      mtime,
      mtimeNs,
      linkpath: type === "symlink" || type === "hardlink" ? linkpath : "",
      devMajor: device ? numberField(block, 329, 8, "device") : 0,
      devMinor: device ? numberField(block, 337, 8, "device") : 0,
      xattrs: pax.xattrs,
    };
    if (!this.#readsMap(block, flag, sparse)) this.#begin();
  }

  /** True where the map of a sparse file's holes follows the header. */
  #readsMap(block: Uint8Array, flag: string, sparse: ReturnType<typeof paxSparse>): boolean {
    this.#sparse = undefined;
    if (flag === "S") {
      this.#sparse = { size: numberField(block, 483, 12, "real size"), segments: [] };
      addOldEntries(this.#sparse, block, 386, 4);
      if (block[482] !== 0) {
        this.#state = "oldSparse";
        return true;
      }
    } else if (sparse) {
      this.#sparse = sparse.map;
      if (sparse.inData) {
        this.#sparseReader = new SparseMapReader();
        this.#state = "sparseMap";
        return true;
      }
    }
    return false;
  }

  /** The header is complete: reports the entry and continues with its data. */
  #begin(): void {
    const header = this.#pending!;
    this.#pending = undefined;
    this.#position = 0;
    this.#segment = 0;
    this.#segmentLeft = 0;
    if (this.#sparse) header.size = checkSparse(this.#sparse, this.#left).size;
    if (this.#deliver) this.#handler.entry(header);
    this.#deliver &&= header.type === "file";
    const silent = !this.#deliver && header.type !== "file";
    if (silent) this.#handler.end();
    this.#state = "data";
    if (this.#left === 0) this.#endData();
  }

  #data(chunk: Uint8Array, at: number): number {
    let take = Math.min(this.#left, chunk.length - at);
    if (this.#deliver) {
      if (this.#sparse) take = this.#enterSegment(take);
      if (take > 0) this.#handler.data(chunk.subarray(at, at + take));
    }
    this.#left -= take;
    if (this.#left === 0) this.#endData();
    return at + take;
  }

  /** Moves to the segment of the next stored byte. Returns how many of `take` bytes are in that segment. */
  #enterSegment(take: number): number {
    const { segments } = this.#sparse!;
    while (this.#segmentLeft === 0) {
      const next = segments[this.#segment++];
      if (next.offset > this.#position) this.#handler.hole(next.offset - this.#position);
      this.#position = next.offset + next.length;
      this.#segmentLeft = next.length;
    }
    take = Math.min(take, this.#segmentLeft);
    this.#segmentLeft -= take;
    return take;
  }

  #endData(): void {
    if (this.#deliver) {
      if (this.#sparse && this.#sparse.size > this.#position) {
        this.#handler.hole(this.#sparse.size - this.#position);
      }
      this.#handler.end();
    }
    this.#sparse = undefined;
    this.#state = this.#pad > 0 ? "padding" : "header";
  }
}

/**
 * The name in a header: POSIX archives split a long name over two fields; GNU archives use the second field
 * for other things.
 */
function headerPath(block: Uint8Array): string {
  const name = field(block, 0, 100);
  const posix = field(block, 257, 6) === "ustar" && block[262] === 0;
  const prefix = posix ? field(block, 345, 155) : "";
  return prefix ? `${prefix}/${name}` : name;
}
