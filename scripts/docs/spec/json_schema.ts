/** The JSON Schema of a deployment spec, with what each field means: for documents, never for checking. */
import { z } from "zod";
import type { FieldEntry } from "../../../lib/api/deploy_spec_fields.ts";
import { DEPLOY_SPEC_HELP } from "./help.ts";
import { deploySpecSchema } from "../../../lib/api/deploy_spec_schema.ts";

/** What is read of a JSON Schema (draft 2020-12). */
export interface JsonSchema {
  title?: string;
  description?: string;
  examples?: unknown[];
  type?: string | string[];
  enum?: unknown[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  additionalProperties?: JsonSchema | boolean;
  anyOf?: JsonSchema[];
}

/** Forms that are numbers, and may be written as texts. */
const TEXT_TOO = ["size", "processors"];

/** The object that a field's own fields are in. */
export function sectionOf(schema: JsonSchema): JsonSchema | undefined {
  return [schema, schema.items, ...schema.anyOf ?? []].find((one) => one?.properties);
}

/** Every field inside a section with its path: "volumes[].labels". */
export function* fieldsOf(section: JsonSchema, above = ""): Generator<[string, JsonSchema]> {
  for (const [name, field] of Object.entries(section.properties ?? {})) {
    yield [`${above}${name}`, field];
    const inner = sectionOf(field);
    const list = inner !== undefined && inner === field.items;
    if (inner) yield* fieldsOf(inner, `${above}${name}${list ? "[]" : ""}.`);
  }
}

function explain(section: JsonSchema, fields: Record<string, FieldEntry>): void {
  for (const [name, [description, example, inner]] of Object.entries(fields)) {
    const field = section.properties![name];
    Object.assign(field, { description, examples: [example] });
    if (TEXT_TOO.includes(field.title ?? "")) field.type = [field.type as string, "string"];
    if (inner) explain(sectionOf(field)!, inner as Record<string, FieldEntry>);
  }
  const { properties = {}, required } = section;
  section.required = required?.filter((name) => properties[name].default === undefined);
}

/** Of the long forms; a new object each time. */
export function deploySpecJsonSchema(): JsonSchema {
  const options = { io: "output", unrepresentable: "any", reused: "inline" } as const;
  const { $schema: _dialect, ...schema } = z.toJSONSchema(deploySpecSchema, options);
  explain(schema as JsonSchema, DEPLOY_SPEC_HELP as unknown as Record<string, FieldEntry>);
  return schema as JsonSchema;
}
