/** Remote procedures of gRPC as data: their paths, and the fields of their messages by number. */
import type { Field, FieldType, Schema } from "./protobuf.ts";

/** One remote procedure; `In` and `Out` are the messages' types. */
export interface Method<In, Out> {
  /** "package.Service/Name". */
  path: string;
  input: Schema;
  output: Schema;
  /** Never set; carries the types of the messages. */
  _types?: [In, Out];
}

export const field = (no: number, type: FieldType = "string"): Field => ({ no, type });
export const many = (no: number, type: FieldType = "string"): Field => ({
  no,
  type,
  repeated: true,
});

export function method<In, Out>(
  path: string,
  input: Schema,
  output: Schema = {},
): Method<In, Out> {
  return { path, input, output };
}
