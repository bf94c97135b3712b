/**
 * The part of protobuf's wire format that containerd's API needs: messages described by tables of field
 * numbers, unknown fields skipped, absent ones given their type's zero as proto3 has it.
 */
import { SvcError } from "../base/errors.ts";

export type FieldType = "string" | "bytes" | "bool" | "uint" | "labels" | Schema;

export interface Field {
  /** Field number. */
  no: number;
  /** "uint": any varint up to 2^53; "labels": map<string, string>. */
  type: FieldType;
  repeated?: boolean;
}

/** Name → field of one message. */
export interface Schema {
  readonly [name: string]: Field;
}

const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function pushVarint(out: number[], value: number): void {
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) out.push((rest % 0x80) | 0x80);
  out.push(rest);
}

function concat(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function head(no: number, wire: number, value: number): Uint8Array {
  const out: number[] = [];
  pushVarint(out, no * 8 + wire);
  pushVarint(out, value);
  return Uint8Array.from(out);
}

const MAP_ENTRY: Schema = { key: { no: 1, type: "string" }, value: { no: 2, type: "string" } };

function encodeValue(parts: Uint8Array[], { no, type }: Field, value: unknown): void {
  if (type === "uint" || type === "bool") {
    parts.push(head(no, VARINT, Number(value)));
    return;
  }
  const bytes = type === "string"
    ? encoder.encode(value as string)
    : type === "bytes"
    ? value as Uint8Array
    : encodeMessage(type as Schema, value as object);
  parts.push(head(no, BYTES, bytes.length), bytes);
}

/** A message's bytes; fields that are undefined are left out. */
export function encodeMessage(schema: Schema, message: object): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [];
  for (const [name, value] of Object.entries(message)) {
    if (value === undefined) continue;
    const field = schema[name];
    if (!field) throw new TypeError(`the message has no field ${name}`);
    if (field.type === "labels") {
      for (const [key, text] of Object.entries(value as Record<string, string>)) {
        encodeValue(parts, { no: field.no, type: MAP_ENTRY }, { key, value: text });
      }
    } else if (field.repeated) {
      for (const item of value as unknown[]) encodeValue(parts, field, item);
    } else encodeValue(parts, field, value);
  }
  return concat(parts);
}

const malformed = () =>
  new SvcError("upstream_failed", "Cannot read containerd's answer: it is malformed");

class Reader {
  at = 0;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get more(): boolean {
    return this.at < this.#bytes.length;
  }

  varint(): number {
    let value = 0;
    for (let scale = 1, count = 0; count < 10; scale *= 128, count++) {
      const byte = this.#bytes[this.at++];
      if (byte === undefined) throw malformed();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
    throw malformed();
  }

  take(length: number): Uint8Array {
    if (length > this.#bytes.length - this.at) throw malformed();
    this.at += length;
    return this.#bytes.subarray(this.at - length, this.at);
  }
}

function zero({ type, repeated }: Field): unknown {
  if (repeated) return [];
  switch (type) {
    case "string":
      return "";
    case "bytes":
      return new Uint8Array();
    case "bool":
      return false;
    case "uint":
      return 0;
    case "labels":
      return {};
    default:
      return undefined;
  }
}

function decodeBytes(type: FieldType, bytes: Uint8Array): unknown {
  if (type === "string") return decoder.decode(bytes);
  // A copy: the bytes are a view of a larger buffer that others use.
  if (type === "bytes") return new Uint8Array(bytes);
  return decodeMessage(type as Schema, bytes);
}

/** Reads a message. Throws `upstream_failed` where the bytes are none. */
export function decodeMessage<T>(schema: Schema, bytes: Uint8Array): T {
  const fields = new Map(
    Object.entries(schema).map(([name, field]) => [field.no, { name, field }]),
  );
  const message: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(schema)) message[name] = zero(field);
  const reader = new Reader(bytes);
  while (reader.more) {
    const tag = reader.varint();
    const wire = tag % 8;
    let value: number | Uint8Array;
    if (wire === VARINT) value = reader.varint();
    else if (wire === BYTES) value = reader.take(reader.varint());
    else if (wire === FIXED64 || wire === FIXED32) value = reader.take(wire === FIXED64 ? 8 : 4);
    else throw malformed();
    const known = fields.get(Math.floor(tag / 8));
    if (!known) continue;
    const { name, field: { type, repeated } } = known;
    const number = type === "uint" || type === "bool";
    if (number !== (wire === VARINT) || (!number && wire !== BYTES)) throw malformed();
    if (typeof value === "number") message[name] = type === "bool" ? value !== 0 : value;
    else if (type === "labels") {
      const entry = decodeMessage<{ key: string; value: string }>(MAP_ENTRY, value);
      (message[name] as Record<string, string>)[entry.key] = entry.value;
    } else if (repeated) (message[name] as unknown[]).push(decodeBytes(type, value));
    else message[name] = decodeBytes(type, value);
  }
  return message as T;
}
