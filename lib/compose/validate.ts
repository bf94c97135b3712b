/** Checks a tree against its shape: unknown and missing keys, kinds, words, ranges, items that stand twice. */
import { nearest } from "../base/nearest.ts";
import { Problem } from "./problem.ts";
import { childShape, isExtension, type Kind, type Path, type Shape } from "./shape/shape.ts";
import {
  Float,
  isList,
  isMapping,
  kindOf,
  type List,
  type Mapping,
  type Value,
} from "./yaml/tree.ts";

const KIND_NAMES: Record<Kind, string> = {
  text: "text",
  number: "a number",
  integer: "a whole number",
  boolean: "true or false",
  nothing: "nothing",
  list: "a list",
  mapping: "a mapping",
};

function kinds(value: Value): Kind[] {
  if (value === null) return ["nothing"];
  if (isMapping(value)) return ["mapping"];
  if (isList(value)) return ["list"];
  if (typeof value === "string") return ["text"];
  if (typeof value === "boolean") return ["boolean"];
  const whole = !(value instanceof Float) || Number.isInteger(value.value);
  return whole ? ["integer", "number"] : ["number"];
}

function oneOf(words: readonly string[]): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

/** Throws {@linkcode Problem}. */
export function validateTree(value: Value, shape: Shape, path: Path = []): void {
  const own = kinds(value);
  if (!own.some((kind) => shape.takes.includes(kind))) {
    const wanted = oneOf([...new Set(shape.takes.map((kind) => KIND_NAMES[kind]))]);
    throw new Problem(path, `expected ${wanted}, got ${kindOf(value)}`, quotesHelp(value, shape));
  }
  if (isMapping(value)) return checkMapping(value, shape, path);
  if (isList(value)) return checkList(value, shape, path);
  if (typeof value === "string") return checkText(value, shape, path);
  const number = value instanceof Float ? value.value : value;
  if (shape.range && typeof number === "number") {
    const [least, most] = shape.range;
    if (number < least || number > most) {
      const limits = most === Infinity ? `at least ${least}` : `${least} to ${most}`;
      throw new Problem(path, `${number} is out of range (${limits})`);
    }
  }
}

function quotesHelp(value: Value, shape: Shape): string | undefined {
  const plain = value !== null && typeof value !== "string" && !isList(value) && !isMapping(value);
  return plain && shape.takes.includes("text") ? "put it in quotes" : undefined;
}

function checkText(value: string, { words, pattern, result }: Shape, path: Path): void {
  if (words && !words.includes(value) && (result !== "items" || value !== "all")) {
    throw new Problem(path, `${JSON.stringify(value)} is not one of ${words.join(", ")}`);
  }
  if (pattern && !pattern.test(value)) {
    throw new Problem(path, `${JSON.stringify(value)} does not match ${pattern.source}`);
  }
}

function unknownKey(key: string, fields: readonly string[], path: Path): Problem {
  const near = nearest(key, fields);
  return new Problem(
    [...path, key],
    `unknown key${near ? `; did you mean ${near}?` : ""}`,
    "keys of your own begin with x-",
  );
}

function checkMapping(value: Mapping, shape: Shape, path: Path): void {
  for (const [key, child] of value) {
    const next = childShape(shape, key);
    if (!next) {
      if (!shape.fields) continue;
      if (isExtension(key) && shape.extensible !== false) continue;
      throw unknownKey(key, Object.keys(shape.fields), path);
    }
    if (shape.keys && !shape.keys.test(key)) {
      throw new Problem(
        [...path, key],
        `the name ${JSON.stringify(key)} has characters beside ` +
          "letters, digits, points, dashes and underscores",
      );
    }
    validateTree(child, next, [...path, key]);
  }
  for (const key of shape.required ?? []) {
    if (!value.has(key)) throw new Problem(path, `${key} is missing`);
  }
}

function checkList(value: List, shape: Shape, path: Path): void {
  const items = shape.items;
  if (items) {
    for (const [index, item] of value.entries()) {
      validateTree(item, items, [...path, String(index)]);
    }
  }
  if (!shape.distinct) return;
  const seen = new Map<string, number>();
  for (const [index, item] of value.entries()) {
    const text = canonicalText(item);
    const before = seen.get(text);
    if (before !== undefined) {
      throw new Problem([...path, String(index)], `the same as item ${before + 1}`);
    }
    seen.set(text, index);
  }
}

/** Text that is the same for values that say the same. */
function canonicalText(value: Value): string {
  if (isMapping(value)) {
    return `{${
      [...value.keys()].sort().map((key) =>
        `${JSON.stringify(key)}:${canonicalText(value.get(key)!)}`
      ).join()
    }}`;
  }
  if (isList(value)) return `[${value.map(canonicalText).join()}]`;
  if (typeof value === "string" || value === null) return JSON.stringify(value);
  return value instanceof Float ? String(value.value) : String(value);
}
