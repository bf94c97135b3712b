/**
 * The tree that Compose files are read into: YAML's values with the kinds that Compose tells apart (1 and 1.0),
 * and the place of each value, kept beside it so that files can be merged like plain data.
 */
/** Where a value stands in a file. Lines begin with 1. */
export interface Place {
  /** The file as it was named, made absolute; "-" is standard input. */
  file: string;
  line: number;
}

/** A number with a point or an exponent in the file; a plain `number` or `bigint` is a whole one. */
export class Float {
  constructor(readonly value: number) {}
}

export type Scalar = null | boolean | number | bigint | string | Float;
export type Value = Scalar | List | Mapping;
export type List = Value[];
export type Mapping = Map<string, Value>;

export const isMapping = (value: unknown): value is Mapping => value instanceof Map;
export const isList = (value: unknown): value is List => Array.isArray(value);

/** A mapping of plain data. */
export function mapping(entries: Record<string, Value | undefined>): Mapping {
  return new Map(
    Object.entries(entries).filter((entry): entry is [string, Value] => entry[1] !== undefined),
  );
}

const PLACES = new WeakMap<object, Map<string, Place>>();

export function setPlace(within: Mapping | List, key: string | number, place: Place | undefined) {
  if (!place) return;
  let places = PLACES.get(within);
  if (!places) PLACES.set(within, places = new Map());
  places.set(String(key), place);
}

export function placeIn(within: Mapping | List, key: string | number): Place | undefined {
  return PLACES.get(within)?.get(String(key));
}

/** Appends items with their places. */
export function append(to: List, from: List): List {
  for (const [index, item] of from.entries()) {
    setPlace(to, to.length, placeIn(from, index));
    to.push(item);
  }
  return to;
}

/** A list of some of `from`'s items, each at its old place. */
export function pick(from: List, indexes: readonly number[]): List {
  const list: List = [];
  for (const index of indexes) {
    setPlace(list, list.length, placeIn(from, index));
    list.push(from[index]);
  }
  return list;
}

/** A value that shares nothing with the original but the places. */
export function clone(value: Value): Value {
  if (isMapping(value)) {
    const copy: Mapping = new Map();
    for (const [key, child] of value) {
      copy.set(key, clone(child));
      setPlace(copy, key, placeIn(value, key));
    }
    return copy;
  }
  if (!isList(value)) return value;
  const copy = pick(value, [...value.keys()]);
  for (const [index, item] of copy.entries()) copy[index] = clone(item);
  return copy;
}

/** Whether two values say the same, wherever they stand. */
export function same(a: Value, b: Value): boolean {
  if (isMapping(a)) {
    return isMapping(b) && a.size === b.size &&
      [...a].every(([key, value]) => b.has(key) && same(value, b.get(key)!));
  }
  if (isList(a)) {
    return isList(b) && a.length === b.length && a.every((item, index) => same(item, b[index]));
  }
  if (a instanceof Float) return b instanceof Float && a.value === b.value;
  return a === b;
}

/** The place of the value at `path`, or of the nearest one above it that has a place. */
export function placeAt(root: Value, path: readonly string[]): Place | undefined {
  let value: Value | undefined = root;
  let found: Place | undefined;
  for (const key of path) {
    if (!isMapping(value) && !isList(value)) break;
    found = placeIn(value, key) ?? found;
    value = isMapping(value) ? value.get(key) : value[Number(key)];
    if (value === undefined) break;
  }
  return found;
}

/** What a person calls the kind of a value. */
export function kindOf(value: Value): string {
  if (value === null) return "nothing";
  if (isMapping(value)) return "a mapping";
  if (isList(value)) return "a list";
  if (typeof value === "string") return "text";
  if (typeof value === "boolean") return `${value}`;
  return "a number";
}
