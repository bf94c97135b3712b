/** Paths in a profile: `~/` is the home folder; a relative path starts at the profile file's folder. */
import { isAbsolute, join, resolve } from "../../base/path.ts";
import type { Field } from "./field.ts";
import { CONTEXT_FIELDS } from "./fields.ts";
import type { Context } from "./types.ts";

/** A path of a field in the form in which it is opened. */
export function expand(path: string, folder: string, home?: string): string {
  if (home && (path === "~" || path.startsWith("~/"))) return join(home, path.slice(1));
  return isAbsolute(path) ? path : resolve(folder, path);
}

type Block = Record<string, unknown>;

function walk(block: Block, fields: readonly Field[], act: (path: string) => string): Block {
  const result: Block = { ...block };
  for (const field of fields) {
    const value = block[field.name];
    if (value === undefined) continue;
    if (field.path) result[field.name] = act(value as string);
    if (field.kind === "block") result[field.name] = walk(value as Block, field.fields!, act);
    if (field.kind === "blocks") {
      result[field.name] = (value as Block[]).map((item) => walk(item, field.fields!, act));
    }
  }
  return result;
}

/** The context with every path absolute. */
export function absolutePaths(context: Context, folder: string, home?: string): Context {
  return walk(context as Block, CONTEXT_FIELDS, (path) => expand(path, folder, home)) as Context;
}

/** The row of a field, by its path within a context. */
export function fieldAt(path: readonly string[]): Field | undefined {
  let fields: readonly Field[] = CONTEXT_FIELDS;
  let found: Field | undefined;
  for (const name of path) {
    found = fields.find((field) => field.name === name);
    fields = found?.fields ?? [];
  }
  return found;
}

/** True where the field at this path within a context holds a file's path. */
export const isPathField = (path: readonly string[]): boolean => fieldAt(path)?.path ?? false;
