/**
 * The shape of a value of a Compose file: what may be written, how two files' values are merged, what a short
 * form stands for, and what the loaded project has in its place. One table (./service.ts, ./resources.ts) says
 * it for every field; each pass over a project walks the tree and the table together.
 */
import { isList, isMapping, type Value } from "../yaml/tree.ts";

/** What may be written. */
export type Kind = "text" | "number" | "integer" | "boolean" | "nothing" | "list" | "mapping";

/**
 * What the loaded project has.
 * - text, flag (false is left out), switch (false is kept), count (0 is left out), number (a count, 0 is kept),
 *   single (a 32 bit float), size (text of bytes), duration and delay (0 is left out), mode (octal text)
 * - strings (a list of text), command, test, hosts
 * - environment (null: no value), labels (text), options (text), lists (each a list of text), ssh
 * - none (nothing)
 * - struct (fields of its own), map (free keys), items (a list of shapes), ulimit, raw (as written)
 */
export type Result =
  | "text"
  | "flag"
  | "switch"
  | "count"
  | "number"
  | "single"
  | "size"
  | "duration"
  | "delay"
  | "mode"
  | "strings"
  | "command"
  | "test"
  | "hosts"
  | "environment"
  | "labels"
  | "options"
  | "lists"
  | "ssh"
  | "struct"
  | "map"
  | "items"
  | "ulimit"
  | "devices"
  | "raw"
  | "none";

/** How the value of a later file meets that of an earlier one; default: mappings merge, lists append. */
export type MergeRule =
  | "replace"
  | "sequence"
  | "build"
  | "keyed"
  | "depends"
  | "hosts"
  | "logging"
  | "ulimit"
  | "ipam";

/** How relative paths become absolute. */
export type PathRule = "path" | "unix" | "context" | "link" | "mount" | "driver";

/** Short forms written out; see ../long_forms.ts. */
export type LongForm =
  | "build"
  | "strings"
  | "names"
  | "depends"
  | "device"
  | "envFiles"
  | "extends"
  | "external"
  | "gpus"
  | "include"
  | "pairs"
  | "ports"
  | "reference"
  | "ssh"
  | "text"
  | "mount";

/** What makes two items of a list the same one, of which the later counts. */
export type Identity =
  | "name"
  | "mount"
  | "device"
  | "config"
  | "secret"
  | "expose"
  | "port"
  | "envFile";

export type Fields = Readonly<Record<string, Shape>>;

export interface Shape {
  readonly takes: readonly Kind[];
  readonly result: Result;
  /** Of a mapping with fixed keys, in the order in which they are printed. `x-` keys are allowed besides. */
  readonly fields?: Fields;
  /** False: no `x-` keys. */
  readonly extensible?: boolean;
  readonly required?: readonly string[];
  /** Of each value of a mapping with free keys. */
  readonly values?: Shape;
  readonly keys?: RegExp;
  readonly items?: Shape;
  /** The list must not have the same item twice. */
  readonly distinct?: boolean;
  readonly words?: readonly string[];
  readonly pattern?: RegExp;
  readonly range?: readonly [least: number, most: number];
  readonly merge?: MergeRule;
  readonly identity?: Identity;
  readonly form?: LongForm;
  readonly path?: PathRule;
  /** In JSON the field is there even where it has nothing. */
  readonly always?: "null" | "struct";
  /** A struct that YAML leaves out where it is empty; others are `{}` then. */
  readonly inline?: boolean;
  /** A field that is printed even where it is zero. */
  readonly kept?: boolean;
  /** Name of the field in JSON where it is another one. */
  readonly jsonName?: string;
}

type More = Partial<Shape>;

export const text = (more: More = {}): Shape => ({ takes: ["text"], result: "text", ...more });
export const flag = (more: More = {}): Shape => ({
  takes: ["boolean", "text"],
  result: "flag",
  ...more,
});
export const count = (more: More = {}): Shape => ({
  takes: ["integer", "text"],
  result: "count",
  ...more,
});
export const single = (more: More = {}): Shape => ({
  takes: ["number", "text"],
  result: "single",
  ...more,
});
export const size = (more: More = {}): Shape => ({
  takes: ["number", "text"],
  result: "size",
  ...more,
});
export const duration = (more: More = {}): Shape => ({
  takes: ["text"],
  result: "duration",
  ...more,
});

/** A list of text. */
export const strings = (more: More = {}): Shape => ({
  takes: ["list"],
  items: text(),
  result: "strings",
  ...more,
});
/** A list of text of which none may stand twice. */
export const set = (more: More = {}): Shape => strings({ distinct: true, ...more });
export const textOrSet = (more: More = {}): Shape => set({ takes: ["list", "text"], ...more });

const anything: Shape = { takes: ["text", "number", "boolean", "nothing"], result: "raw" };

/** `KEY: value`, or a list of `KEY=value`. */
export const pairs = (result: Result, more: More = {}): Shape => ({
  takes: ["mapping", "list"],
  values: anything,
  items: text(),
  distinct: true,
  merge: "sequence",
  identity: "name",
  result,
  ...more,
});

/** A mapping of text to short values. */
export const options = (takes: readonly Kind[], more: More = {}): Shape => ({
  takes: ["mapping"],
  values: { takes, result: "text" },
  result: "options",
  ...more,
});

export const struct = (fields: Fields, more: More = {}): Shape => ({
  takes: ["mapping"],
  fields,
  result: "struct",
  ...more,
});

export const list = (items: Shape, more: More = {}): Shape => ({
  takes: ["list"],
  items,
  result: "items",
  ...more,
});

/** Names of services, networks and so on. */
export const NAME = /^[a-zA-Z0-9._-]+$/;

export const map = (values: Shape, more: More = {}): Shape => ({
  takes: ["mapping"],
  values,
  keys: NAME,
  result: "map",
  ...more,
});

export const isExtension = (key: string): boolean => key.startsWith("x-");

/** The shape of a mapping's child; undefined where nothing is said of it (extensions). */
export function childShape(shape: Shape | undefined, key: string): Shape | undefined {
  if (!shape) return undefined;
  if (!shape.fields) return shape.values;
  return Object.hasOwn(shape.fields, key) ? shape.fields[key] : undefined;
}

/** Path of a value within a project, for messages and for {@linkcode Place}. */
export type Path = readonly string[];

export const pathText = (path: Path): string => path.join(".") || "the file";

/** A pass over one value. */
export type Visit = (value: Value, shape: Shape | undefined, path: Path) => Value;

/** Puts what the pass makes of each child in its place; the value itself. */
export function changeChildren(value: Value, shape: Shape | undefined, path: Path, visit: Visit) {
  if (isMapping(value)) {
    for (const [key, child] of value) {
      value.set(key, visit(child, childShape(shape, key), [...path, key]));
    }
  } else if (isList(value)) {
    for (const [index, item] of value.entries()) {
      value[index] = visit(item, shape?.items, [...path, String(index)]);
    }
  }
  return value;
}
