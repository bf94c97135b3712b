/** A profile without its secrets. */
import type { Field } from "./field.ts";
import { CONTEXT_FIELDS } from "./fields.ts";
import type { Context, Profile } from "./types.ts";

export const REDACTED = "REDACTED";

type Block = Record<string, unknown>;

function hide(block: Block, fields: readonly Field[]): Block {
  const result: Block = { ...block };
  for (const field of fields) {
    const value = block[field.name];
    if (value === undefined) continue;
    if (field.secret) result[field.name] = REDACTED;
    if (field.kind === "block") result[field.name] = hide(value as Block, field.fields!);
  }
  return result;
}

export function redactContext(context: Context): Context {
  return hide(context as Block, CONTEXT_FIELDS) as Context;
}

export function redactProfile(profile: Profile): Profile {
  const contexts = Object.entries(profile.contexts).map(([name, context]) =>
    [name, redactContext(context)] as const
  );
  return { ...profile, contexts: Object.fromEntries(contexts) };
}
