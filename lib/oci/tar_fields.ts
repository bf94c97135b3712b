/** Fields of one 512-byte tar header, and pax records. */
import { decodeRaw } from "../base/raw_string.ts";
import { archiveError, BLOCK } from "./tar.ts";

const SPACE = 32;
const ZERO = 48;

/** Text up to the first NUL. */
export function field(block: Uint8Array, at: number, length: number): string {
  let end = at;
  while (end < at + length && block[end] !== 0) end++;
  return decodeRaw(block.subarray(at, end));
}

/** An octal or base-256 number; 0 for an empty field. Throws where the field is neither, or too large. */
export function numberField(block: Uint8Array, at: number, length: number, name: string): number {
  if (block[at] & 0x80) return binaryNumber(block, at, length, name);
  let value = 0;
  let i = at;
  const end = at + length;
  while (i < end && block[i] === SPACE) i++;
  for (; i < end && block[i] >= ZERO && block[i] < ZERO + 8; i++) {
    value = value * 8 + block[i] - ZERO;
  }
  for (; i < end; i++) {
    if (block[i] === 0) break;
    if (block[i] !== SPACE) throw archiveError(`the header's ${name} is not a number`);
  }
  if (!Number.isSafeInteger(value)) throw archiveError(`the header's ${name} is too large`);
  return value;
}

/** GNU base-256: two's complement, big-endian, the top bit a mark. */
function binaryNumber(block: Uint8Array, at: number, length: number, name: string): number {
  const negative = (block[at] & 0x40) !== 0;
  let value = BigInt(block[at] & 0x3f) - (negative ? 0x40n : 0n);
  for (let i = at + 1; i < at + length; i++) value = value << 8n | BigInt(block[i]);
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw archiveError(`the header's ${name} is too large`);
  return number;
}

/** Throws where the header's checksum is wrong. Accepts unsigned sums (POSIX) and signed ones (old tars). */
export function verifyChecksum(block: Uint8Array): void {
  let unsigned = 8 * SPACE;
  let high = 0;
  for (let i = 0; i < BLOCK; i++) {
    if (i >= 148 && i < 156) continue;
    unsigned += block[i];
    if (block[i] >= 0x80) high++;
  }
  const stored = numberField(block, 148, 8, "checksum");
  if (stored !== unsigned && stored !== unsigned - 256 * high) {
    throw archiveError("a header's checksum is wrong; it is damaged or not a tar archive");
  }
}

export type PaxRecord = [key: string, value: Uint8Array];

/**
 * Parses "length key=value
 * " records. Throws where a length does not fit its record.
 */
export function parsePax(bytes: Uint8Array): PaxRecord[] {
  const records: PaxRecord[] = [];
  const bad = () => archiveError("a pax extended header is malformed");
  for (let at = 0; at < bytes.length;) {
    let length = 0;
    let i = at;
    for (; i < bytes.length && bytes[i] >= ZERO && bytes[i] <= ZERO + 9 && i - at < 10; i++) {
      length = length * 10 + bytes[i] - ZERO;
    }
    const end = at + length;
    if (i === at || bytes[i] !== SPACE || end > bytes.length || bytes[end - 1] !== 10) throw bad();
    const equals = bytes.indexOf(61, i);
    if (equals < 0 || equals >= end - 1 || equals === i + 1) throw bad();
    records.push([
      decodeRaw(bytes.subarray(i + 1, equals)),
      new Uint8Array(bytes.subarray(equals + 1, end - 1)),
    ]);
    at = end;
  }
  return records;
}

/** A whole decimal number of a pax record. */
export function paxInteger(text: string, name: string): number {
  const value = /^-?\d+$/.test(text) ? Number(text) : NaN;
  if (!Number.isSafeInteger(value)) {
    throw archiveError(`pax record ${name} is not a usable number`);
  }
  return value;
}

/** "12.5" as seconds, rounded down, and nanoseconds. */
export function paxTime(text: string, name: string): [seconds: number, nanoseconds: number] {
  const match = /^(-?)(\d+)(?:\.(\d*))?$/.exec(text);
  if (!match) throw archiveError(`pax record ${name} is not a time`);
  const seconds = paxInteger(match[2], name);
  const nanos = Number((match[3] ?? "").slice(0, 9).padEnd(9, "0"));
  if (!match[1]) return [seconds, nanos];
  return nanos === 0 ? [0 - seconds, 0] : [-seconds - 1, 1_000_000_000 - nanos];
}
