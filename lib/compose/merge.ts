/** Merges a later file's tree into an earlier one's, by the rules of the Compose specification. */
import { Problem } from "./problem.ts";
import { identityOf } from "./identity.ts";
import {
  changeChildren,
  childShape,
  type MergeRule,
  type Path,
  type Shape,
} from "./shape/shape.ts";
import { textOf } from "./yaml/scalar.ts";
import {
  append,
  clone,
  isList,
  isMapping,
  type List,
  type Mapping,
  mapping,
  pick,
  placeIn,
  type Scalar,
  setPlace,
  type Value,
} from "./yaml/tree.ts";

type Rule = (base: Value, over: Value, shape: Shape, path: Path) => Value;

/** A mapping as `KEY=value` items, sorted by key; one item for each value of a list. */
function toSequence(value: Value): List {
  if (typeof value === "string") return [value];
  if (isList(value)) return value;
  if (!isMapping(value)) return [];
  const items: { text: string; key: string }[] = [];
  for (const [key, child] of value) {
    const values = isList(child) ? child : [child];
    for (const one of values) {
      items.push({ key, text: one === null ? key : `${key}=${textOf(one as Scalar)}` });
    }
  }
  items.sort((a, b) => a.text < b.text ? -1 : a.text > b.text ? 1 : 0);
  const list: List = [];
  for (const { text, key } of items) {
    setPlace(list, list.length, placeIn(value, key));
    list.push(text);
  }
  return list;
}

/** A list of names as a mapping of what `initial` gives for each: nothing, unless it is said. */
export function toMapping(value: Value, initial: () => Value = () => null): Mapping {
  if (isMapping(value)) return value;
  const result: Mapping = new Map();
  if (!isList(value)) return result;
  for (const [index, name] of value.entries()) {
    if (typeof name !== "string") continue;
    result.set(name, initial());
    setPlace(result, name, placeIn(value, index));
  }
  return result;
}

/** What a service needs of another one where it says only its name. */
export const started = () => mapping({ condition: "service_started", required: true });

function context(value: Value): Mapping {
  if (isMapping(value)) return value;
  return typeof value === "string" ? mapping({ context: value }) : new Map();
}

const RULES: Record<MergeRule, Rule> = {
  replace: (_base, over) => over,
  sequence: (base, over) => append(append([], toSequence(base)), toSequence(over)),
  build: (base, over, shape, path) => mergeMappings(context(base), context(over), shape, path),
  keyed: (base, over, shape, path) => mergeMappings(toMapping(base), toMapping(over), shape, path),
  depends: (base, over, shape, path) =>
    mergeMappings(toMapping(base, started), toMapping(over, started), shape, path),
  hosts(base, over) {
    const list = append([], toSequence(base));
    const more = toSequence(over);
    const known = new Set(list);
    return append(list, pick(more, [...more.keys()].filter((index) => !known.has(more[index]))));
  },
  logging(base, over, shape, path) {
    if (!isMapping(base) || !isMapping(over)) return over ?? base;
    const [before, after] = [base.get("driver"), over.get("driver")];
    const other = before !== undefined && after !== undefined && before !== after;
    return other ? over : mergeMappings(base, over, shape, path);
  },
  ulimit: (_base, over) => over,
  ipam: mergePools,
};

/** Address pools of one subnet are merged. */
function mergePools(base: Value, over: Value, shape: Shape, path: Path): Value {
  if (!isList(base) || !isList(over)) throw new Problem(path, "cannot be merged with another kind");
  const pools: Mapping[] = [];
  const indexOf = (subnet: Value | undefined) =>
    pools.findIndex((pool) => pool.get("subnet") === subnet);
  for (const original of base) {
    for (const later of over) {
      const [left, right] = [toMapping(later), toMapping(original)];
      if (left.get("subnet") !== right.get("subnet") && indexOf(left.get("subnet")) < 0) {
        pools.push(left);
        continue;
      }
      const merged = mergeMappings(clone(right) as Mapping, left, shape.items!, path);
      const at = indexOf(merged.get("subnet"));
      if (at < 0) pools.push(merged);
      else pools[at] = merged;
    }
  }
  return pools;
}

function mergeMappings(
  base: Mapping,
  over: Mapping,
  shape: Shape | undefined,
  path: Path,
): Mapping {
  for (const [key, value] of over) {
    const before = base.get(key);
    const next = childShape(shape, key);
    base.set(key, before === undefined ? value : mergeTree(before, value, next, [...path, key]));
    if (before === undefined || value !== null) setPlace(base, key, placeIn(over, key));
  }
  return base;
}

/** The merged value; `base` may be changed. Throws {@linkcode Problem}. */
export function mergeTree(
  base: Value,
  over: Value,
  shape: Shape | undefined,
  path: Path = [],
): Value {
  if (shape?.merge) return RULES[shape.merge](base, over, shape, path);
  if (over === null) return base;
  if (isMapping(base)) {
    if (!isMapping(over)) {
      throw new Problem(path, "a mapping cannot be overridden with another kind");
    }
    return mergeMappings(base, over, shape, path);
  }
  if (isList(base)) {
    if (!isList(over)) throw new Problem(path, "a list cannot be overridden with another kind");
    return append(append([], base), over);
  }
  return over;
}

/** Of the items of a list that mean the same thing (one port, one target), the last one stays. */
export function dropRedefined(value: Value, shape: Shape | undefined, path: Path = []): Value {
  if (isMapping(value)) return changeChildren(value, shape, path, dropRedefined);
  if (!isList(value) || !shape?.identity) return value;
  const seats = new Map<string, number>();
  for (const [index, item] of value.entries()) {
    const key = identityOf(shape.identity, item, [...path, String(index)]);
    seats.set(key, index);
  }
  if (seats.size === value.length) return value;
  // A map keeps the seat of a key's first item.
  return pick(value, [...seats.values()]);
}

/** Drops what a later document clears (`!reset`, `!override`). */
export function dropCleared(root: Value, cleared: readonly (readonly string[])[]): void {
  for (const path of cleared) {
    const parent = path.slice(0, -1).reduce<Value | undefined>(
      (value, key) => isMapping(value) ? value.get(key) : undefined,
      root,
    );
    if (isMapping(parent)) parent.delete(path.at(-1)!);
  }
}
