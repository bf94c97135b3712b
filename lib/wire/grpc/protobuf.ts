/**
 * Encodes the messages of gRPC services, described by tables of field numbers. `@bufbuild/protobuf` does
 * the wire format. Unknown fields are skipped; absent fields get the zero of their type, as in proto3.
 */
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { SvcError } from "../../base/errors.ts";

export type FieldType = "string" | "bytes" | "bool" | "uint" | "labels" | Schema;

export interface Field {
  /** Field number. */
  no: number;
  /** "uint": any varint up to 2^53; "labels": map<string, string>. */
  type: FieldType;
  repeated?: boolean;
}

/** The fields of one message, by name. */
export interface Schema {
  readonly [name: string]: Field;
}

const MAP_ENTRY: Schema = { key: { no: 1, type: "string" }, value: { no: 2, type: "string" } };

function writeValue(writer: BinaryWriter, { no, type }: Field, value: unknown): void {
  switch (type) {
    case "uint":
      writer.tag(no, WireType.Varint).uint64(value as number);
      return;
    case "bool":
      writer.tag(no, WireType.Varint).bool(value as boolean);
      return;
    case "string":
      writer.tag(no, WireType.LengthDelimited).string(value as string);
      return;
    case "bytes":
      writer.tag(no, WireType.LengthDelimited).bytes(value as Uint8Array);
      return;
    default:
      writer.tag(no, WireType.LengthDelimited).fork();
      writeMessage(writer, type as Schema, value as object);
      writer.join();
  }
}

function writeMessage(writer: BinaryWriter, schema: Schema, message: object): void {
  for (const [name, value] of Object.entries(message)) {
    if (value === undefined) continue;
    const field = schema[name];
    if (!field) throw new TypeError(`the message has no field ${name}`);
    if (field.type === "labels") {
      for (const [key, text] of Object.entries(value as Record<string, string>)) {
        writeValue(writer, { no: field.no, type: MAP_ENTRY }, { key, value: text });
      }
    } else if (field.repeated) {
      for (const item of value as unknown[]) writeValue(writer, field, item);
    } else writeValue(writer, field, value);
  }
}

/** Encodes a message; undefined fields are left out. */
export function encodeMessage(schema: Schema, message: object): Uint8Array<ArrayBuffer> {
  const writer = new BinaryWriter();
  writeMessage(writer, schema, message);
  return writer.finish();
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

function readValue(reader: BinaryReader, wire: WireType, type: FieldType): unknown {
  const expected = type === "uint" || type === "bool" ? WireType.Varint : WireType.LengthDelimited;
  if (wire !== expected) throw new RangeError(`wire type ${wire} where ${expected} belongs`);
  switch (type) {
    case "uint":
      return Number(reader.uint64());
    case "bool":
      return reader.bool();
    case "string":
      return reader.string();
    case "bytes":
      // A copy, since the bytes are a view of a larger shared buffer.
      return new Uint8Array(reader.bytes());
    case "labels":
      return readMessage(MAP_ENTRY, reader, reader.uint32());
    default:
      return readMessage(type, reader, reader.uint32());
  }
}

function readMessage(schema: Schema, reader: BinaryReader, length: number): unknown {
  const end = reader.pos + length;
  const fields = new Map(
    Object.entries(schema).map(([name, field]) => [field.no, { name, field }]),
  );
  const message: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(schema)) message[name] = zero(field);
  while (reader.pos < end) {
    const [no, wire] = reader.tag();
    const known = fields.get(no);
    if (!known) {
      reader.skip(wire, no);
      continue;
    }
    const { name, field: { type, repeated } } = known;
    const value = readValue(reader, wire, type);
    if (type === "labels") {
      const entry = value as { key: string; value: string };
      (message[name] as Record<string, string>)[entry.key] = entry.value;
    } else if (repeated) (message[name] as unknown[]).push(value);
    else message[name] = value;
  }
  if (reader.pos !== end) throw new RangeError("a message ends in the middle of a field");
  return message;
}

/** Decodes a message. Throws `upstream_failed` where the bytes are malformed. */
export function decodeMessage<T>(schema: Schema, bytes: Uint8Array): T {
  try {
    return readMessage(schema, new BinaryReader(bytes), bytes.length) as T;
  } catch (cause) {
    throw new SvcError("upstream_failed", "Cannot read a gRPC message: it is malformed", {
      cause,
    });
  }
}
