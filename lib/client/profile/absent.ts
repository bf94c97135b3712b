/** Fields that are kept for what is not in this build. */
import type { Field } from "./field.ts";
import { CONTEXT_FIELDS } from "./fields.ts";
import type { Context } from "./types.ts";

export interface AbsentField {
  /** "conduit.mode" */
  path: string;
  /** What would read it, in the plural. */
  absent: string;
}

function walk(
  block: Record<string, unknown>,
  fields: readonly Field[],
  above: string,
  lacking?: string,
): AbsentField[] {
  return fields.flatMap((field): AbsentField[] => {
    const value = block[field.name];
    if (value === undefined) return [];
    const path = above + field.name;
    const absent = field.absent ?? lacking;
    if (field.kind === "block") {
      return walk(value as Record<string, unknown>, field.fields!, `${path}.`, absent);
    }
    return absent === undefined ? [] : [{ path, absent }];
  });
}

/** The fields of the context that have no effect in this build. */
export function absentFields(context: Context): AbsentField[] {
  return walk(context as Record<string, unknown>, CONTEXT_FIELDS, "");
}

/** Field paths by what is absent: one sentence for each. */
export function absentNotes(context: Context): string[] {
  const groups = Map.groupBy(absentFields(context), ({ absent }) => absent);
  return [...groups].map(([absent, fields]) => {
    const names = fields.map(({ path }) => path).join(", ");
    const verb = fields.length === 1 ? "has" : "have";
    return `${names} ${verb} no effect: ${absent} are not in this build yet`;
  });
}
