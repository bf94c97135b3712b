/** The part of DER (X.690) that certificates need. */
import { concat } from "./collect.ts";

export const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** One value: its tag, its content, and the bytes of both. */
export interface DerValue {
  readonly tag: number;
  readonly content: Uint8Array;
  readonly whole: Uint8Array;
}

/** Most bytes of a length; no certificate has longer values. */
const MAX_LENGTH_BYTES = 4;

function readValue(bytes: Uint8Array, start: number): DerValue {
  const broken = () => new Error("it is not DER");
  if (start + 2 > bytes.length) throw broken();
  const tag = bytes[start];
  // Multi-byte tags do not occur in certificates.
  if ((tag & 0x1f) === 0x1f) throw broken();
  let at = start + 2;
  let length = bytes[start + 1];
  if (length > 0x7f) {
    const count = length & 0x7f;
    if (count === 0 || count > MAX_LENGTH_BYTES || at + count > bytes.length) throw broken();
    length = 0;
    for (const byte of bytes.subarray(at, at + count)) length = length * 256 + byte;
    at += count;
  }
  const end = at + length;
  if (end > bytes.length) throw broken();
  return { tag, content: bytes.subarray(at, end), whole: bytes.subarray(start, end) };
}

/** Reads consecutive values. Throws an `Error` where the bytes are no DER. */
export function readAll(bytes: Uint8Array): DerValue[] {
  const values: DerValue[] = [];
  for (let at = 0; at < bytes.length;) {
    const value = readValue(bytes, at);
    values.push(value);
    at += value.whole.length;
  }
  return values;
}

/** A value with this tag; its content is the parts in order. */
export function der(tag: number, ...parts: readonly Uint8Array[]): Uint8Array {
  const content = concat(parts);
  const size = content.length;
  const bytes: number[] = [];
  for (let rest = size; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  const length = size < 0x80 ? [size] : [0x80 | bytes.length, ...bytes];
  return concat([Uint8Array.from([tag, ...length]), content]);
}

export const sequence = (...parts: readonly Uint8Array[]) => der(TAG.sequence, ...parts);

/** An object identifier, from text like "1.2.840.10045.4.3.2". */
export function oid(dotted: string): Uint8Array {
  const [first, second, ...rest] = dotted.split(".").map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((number) => {
    const groups = [number & 0x7f];
    for (let more = number >>> 7; more > 0; more >>>= 7) groups.unshift(more & 0x7f | 0x80);
    return groups;
  });
  return der(TAG.oid, Uint8Array.from(bytes));
}

/** A non-negative integer, most significant byte first. */
export function integer(bytes: Uint8Array): Uint8Array {
  const zero = bytes.findIndex((byte) => byte !== 0);
  const short = zero < 0 ? new Uint8Array(1) : bytes.subarray(zero);
  return short[0] > 0x7f ? der(TAG.integer, Uint8Array.of(0), short) : der(TAG.integer, short);
}

/** A bit string of whole bytes; `unused`: bits of the last byte that do not count. */
export function bitString(bytes: Uint8Array, unused = 0): Uint8Array {
  return der(TAG.bitString, Uint8Array.of(unused), bytes);
}

export const octetString = (...parts: readonly Uint8Array[]) => der(TAG.octetString, ...parts);

export const TRUE = der(TAG.boolean, Uint8Array.of(0xff));

const encoder = new TextEncoder();

export const utf8 = (text: string) => der(TAG.utf8, encoder.encode(text));

/** A time in whole seconds; up to the year 2049 in the short form (RFC 5280 4.1.2.5). */
export function time(date: Date): Uint8Array {
  const digits = date.toISOString().replace(/\.\d+Z$/, "Z").replace(/[-:T]/g, "");
  return date.getUTCFullYear() < 2050
    ? der(TAG.utcTime, encoder.encode(digits.slice(2)))
    : der(TAG.generalizedTime, encoder.encode(digits));
}
