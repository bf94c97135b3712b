/** GNU sparse files: the old header, and pax versions 0.0, 0.1 and 1.0 (GNU tar manual, "Sparse Formats"). */
import { archiveError } from "./tar.ts";
import { numberField, paxInteger, type PaxRecord } from "./tar_fields.ts";

/** Where the stored bytes belong in the file: pairs in ascending order without overlaps. */
export interface SparseMap {
  /** Size of the whole file, holes included. */
  size: number;
  segments: { offset: number; length: number }[];
}

/** Most fragments of a map, so that a hostile archive cannot exhaust memory. */
const MAX_SEGMENTS = 1 << 20;

/** Throws unless the segments are in order, inside the file, and `stored` bytes long together. */
export function checkSparse(map: SparseMap, stored: number): SparseMap {
  let at = 0;
  let total = 0;
  for (const { offset, length } of map.segments) {
    if (offset < at || length < 0) throw archiveError("a sparse file's map is out of order");
    at = offset + length;
    total += length;
  }
  if (at > map.size || map.size < 0) throw archiveError("a sparse file's map ends past the file");
  if (total !== stored) throw archiveError("a sparse file's map does not fit its data");
  return map;
}

/** Takes the entries of an old GNU header (4 of them) or its extension block (21). */
export function addOldEntries(map: SparseMap, block: Uint8Array, at: number, count: number): void {
  for (let i = 0; i < count; i++, at += 24) {
    if (block[at] === 0) return;
    const offset = numberField(block, at, 12, "sparse offset");
    const length = numberField(block, at + 12, 12, "sparse length");
    addSegment(map, offset, length);
  }
}

function addSegment(map: SparseMap, offset: number, length: number): void {
  if (map.segments.length >= MAX_SEGMENTS) {
    throw archiveError(`a sparse file has more than ${MAX_SEGMENTS} fragments`);
  }
  map.segments.push({ offset, length });
}

/**
 * A sparse file's pax records: the whole map in versions 0.0 and 0.1; in 1.0 the map is at the start of the
 * data.
 */
export interface PaxSparse {
  map: SparseMap;
  /** Version 1.0: the map comes before the data. */
  inData: boolean;
  name?: string;
}

export function paxSparse(records: PaxRecord[]): PaxSparse | undefined {
  const decoder = new TextDecoder();
  const found = new Map<string, string>();
  const map: SparseMap = { size: 0, segments: [] };
  let offset: number | undefined;
  for (const [key, bytes] of records) {
    if (!key.startsWith("GNU.sparse.")) continue;
    const name = key.slice(11);
    const value = decoder.decode(bytes);
    if (name === "offset") offset = paxInteger(value, key);
    else if (name === "numbytes") {
      if (offset === undefined) {
        throw archiveError("a sparse file's map has a length without place");
      }
      addSegment(map, offset, paxInteger(value, key));
      offset = undefined;
    } else found.set(name, value);
  }
  if (found.size === 0) return undefined;
  const size = found.get("realsize") ?? found.get("size");
  if (size === undefined) throw archiveError("a sparse file's size is missing");
  map.size = paxInteger(size, "GNU.sparse.size");
  const inData = found.get("major") === "1" && found.get("minor") === "0";
  const list = found.get("map");
  if (list !== undefined && !inData) {
    const numbers = list === "" ? [] : list.split(",").map((n) => paxInteger(n, "GNU.sparse.map"));
    if (numbers.length % 2) throw archiveError("a sparse file's map has an odd count");
    for (let i = 0; i < numbers.length; i += 2) addSegment(map, numbers[i], numbers[i + 1]);
  }
  return { map, inData, name: found.get("name") };
}

/** Reads the map of version 1.0 from a file's first bytes, block by block. */
export class SparseMapReader {
  #digits = "";
  #expected = -1;
  #numbers: number[] = [];

  /** Takes a whole block; true once the map is complete (the rest of the block is padding). */
  push(block: Uint8Array): boolean {
    for (const byte of block) {
      if (byte >= 48 && byte <= 57 && this.#digits.length < 16) {
        this.#digits += String.fromCharCode(byte);
        continue;
      }
      if (byte !== 10) throw archiveError("a sparse file's map is malformed");
      const value = paxInteger(this.#digits, "sparse map");
      this.#digits = "";
      if (this.#expected < 0) {
        this.#expected = value * 2;
        if (value > MAX_SEGMENTS) {
          throw archiveError(`a sparse file has more than ${MAX_SEGMENTS} fragments`);
        }
      } else this.#numbers.push(value);
      if (this.#numbers.length === this.#expected) return true;
    }
    return false;
  }

  into(map: SparseMap): void {
    for (let i = 0; i < this.#numbers.length; i += 2) {
      map.segments.push({ offset: this.#numbers[i], length: this.#numbers[i + 1] });
    }
  }
}
