/**
 * The shape of a value of a Compose file: what may be written, how two files' values are merged, what a short
 * form stands for, and what the loaded project has in its place. One table (./service.ts, ./resources.ts) says
 * it for every field; each pass over a project walks the tree and the table together.
 */
import { isList, isMapping, type Value } from "../yaml/tree.ts";

/** What may be written. */
export type Kind = "text" | "number" | "integer" | "boolean" | "nothing" | "list" | "mapping";

/** Keys of the user's own, anywhere a block of fields stands. */
export interface Extensible {
  [extension: `x-${string}`]: unknown;
}

/** What the loaded project has, by how it is made of what is written. */
interface Values {
  text: string;
  /** False is left out; of a switch it is kept. */
  flag: boolean;
  switch: boolean;
  /** 0 is left out; of a number it is kept. */
  count: number;
  number: number;
  /** A 32 bit float. */
  single: number;
  /** A number of bytes. */
  size: string;
  /** Go's text ("1m30s"); of a delay 0 is left out. */
  duration: string;
  delay: string;
  /** Octal text: "0440". */
  mode: string;
  strings: string[];
  /** An empty list clears the image's; absent or null leaves it. */
  command: string[] | null;
  /** Begins with "CMD", "CMD-SHELL" or "NONE". */
  test: string[];
  /** "host=address", sorted. */
  hosts: string[];
  /** null: the variable has no value anywhere, and is not set. */
  environment: Record<string, string | null>;
  labels: Record<string, string>;
  options: Record<string, string>;
  lists: Record<string, string[]>;
  /** By id, sorted; no path: the agent of SSH_AUTH_SOCK. */
  ssh: { id: string; path?: string }[];
  /** One limit for both, or a soft and a hard one. */
  ulimit: number | { soft?: number; hard?: number };
  /** A number; -1: all. */
  devices: number;
  /** Fields of its own; free keys; a list of shapes. */
  struct: unknown;
  map: unknown;
  items: unknown;
  /** As it was written. */
  raw: unknown;
  none: undefined;
}

export type Result = keyof Values;

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

/** `T`: the type of the value in a loaded project. `There`: whether it always has one. */
export interface Shape<T = unknown, There extends boolean = boolean> {
  /** Of the types alone. */
  readonly value?: T;
  readonly there?: There;
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

/** The type of a shape's value. */
export type Valued<S> = S extends Shape<infer T> ? T : never;

/** Keys of those that are always there, `K` among them. */
type There<F, K> = {
  [P in keyof F]: P extends K ? P : F[P] extends Shape<unknown, true> ? P : never;
}[keyof F];

type Struct<F, K> =
  & { [P in keyof F as P extends There<F, K> ? never : P]?: Valued<F[P]> }
  & { [P in There<F, K>]: Valued<F[P]> }
  & Extensible;

type Made<R extends Result, M> = Shape<
  M extends { words: readonly (infer W)[] } ? W
    : Values[M extends { result: infer Q extends Result } ? Q : R],
  M extends { kept: true } ? true : false
>;

const made =
  <R extends Result>(takes: readonly Kind[], result: R, base: More = {}) =>
  <const M extends More = Record<never, never>>(more?: M): Made<R, M> =>
    ({ takes, result, ...base, ...more }) as Made<R, M>;

export const text = made(["text"], "text");
export const flag = made(["boolean", "text"], "flag");
export const count = made(["integer", "text"], "count");
export const single = made(["number", "text"], "single");
export const size = made(["number", "text"], "size");
export const duration = made(["text"], "duration");
/** A list of text. */
export const strings = made(["list"], "strings", { items: text() });
/** A list of text of which none may stand twice. */
export const set = made(["list"], "strings", { items: text(), distinct: true });
export const textOrSet = made(["list", "text"], "strings", { items: text(), distinct: true });

/** A loaded project always has it, though it may not be written. */
export const needed = <T>(shape: Shape<T>) => shape as Shape<T, true>;

const anything: Shape = { takes: ["text", "number", "boolean", "nothing"], result: "raw" };

/** `KEY: value`, or a list of `KEY=value`. */
export const pairs = <R extends Result>(result: R, more: More = {}): Shape<Values[R], false> => ({
  ...{ takes: ["mapping", "list"], values: anything, items: text(), distinct: true },
  ...{ merge: "sequence", identity: "name", result },
  ...more as Partial<Shape<Values[R], false>>,
});

/** A mapping of text to short values. */
export const options = (takes: readonly Kind[], more: More = {}) =>
  made(["mapping"], "options", { values: { takes, result: "text" }, ...more })();

export const struct = <F extends Fields, const M extends More = Record<never, never>>(
  fields: F,
  more?: M,
): Shape<Struct<F, M extends { required: readonly (infer K)[] } ? K : never>, false> => ({
  ...{ takes: ["mapping"], fields, result: "struct" },
  ...more as object,
});

export const list = <T>(items: Shape<T>, more: More = {}): Shape<T[], false> => ({
  ...{ takes: ["list"], items, result: "items" },
  ...more as Partial<Shape<T[], false>>,
});

/** Names of services, networks and so on. */
export const NAME = /^[a-zA-Z0-9._-]+$/;

export const map = <T>(
  values: Shape<T>,
  more: More = {},
): Shape<Record<string, T>, false> => ({
  ...{ takes: ["mapping"], values, keys: NAME, result: "map" },
  ...more as Partial<Shape<Record<string, T>, false>>,
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
