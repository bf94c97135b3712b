/** Makes the loaded project of a tree whose short forms are written out. */
import { Problem } from "./problem.ts";
import { goDuration, memorySize, shellWords } from "./forms/text.ts";
import { isExtension, type Path, type Result, type Shape } from "./shape/shape.ts";
import { shortest, textOf } from "./yaml/scalar.ts";
import { Float, isList, isMapping, kindOf, type Value } from "./yaml/tree.ts";

/** A value of a loaded project; undefined is left out. */
type Plain = unknown;

type Decode = (value: Value, shape: Shape, path: Path) => Plain;

/** A value as it was written, as plain data. */
export function plain(value: Value): Plain {
  if (value instanceof Float) return value.value;
  if (isList(value)) return value.map(plain);
  if (!isMapping(value)) return value;
  return plainRecord(value, plain);
}

/** A record without a prototype, so that no key of a user's means more than itself. */
function plainRecord(
  entries: Iterable<readonly [string, Value]>,
  of: (value: Value, key: string) => Plain,
): Record<string, Plain> {
  const record: Record<string, Plain> = Object.create(null);
  for (const [key, value] of entries) {
    const result = of(value, key);
    if (result !== undefined) record[key] = result;
  }
  return record;
}

function short(value: Value, path: Path): string {
  if (isMapping(value) || isList(value)) {
    throw new Problem(path, `expected text, got ${kindOf(value)}`);
  }
  return textOf(value);
}

function numberOf(value: Value, path: Path): number {
  const number = value instanceof Float ? value.value : Number(value);
  if (typeof value !== "boolean" && value !== null && Number.isFinite(number)) return number;
  throw new Problem(path, `expected a number, got ${kindOf(value)}`);
}

const unlessZero = <T extends number | string>(value: T, { kept }: Shape) =>
  kept || (value !== 0 && value !== "0") ? value : undefined;

/** Text, with what goes wrong in it told at the path. */
function parsed<T>(path: Path, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof Problem || !(error instanceof Error)) throw error;
    throw new Problem(path, error.message);
  }
}

/** `KEY=VALUE` items or a mapping; `none` is for a key without a value. */
function pairs(value: Value, none: Plain, path: Path): Record<string, Plain> {
  if (isMapping(value)) {
    return plainRecord(
      value,
      (child, key) => child === null ? none : short(child, [...path, key]),
    );
  }
  const record: Record<string, Plain> = Object.create(null);
  for (const [index, item] of (isList(value) ? value : []).entries()) {
    const text = short(item, [...path, String(index)]);
    const equals = text.indexOf("=");
    const key = equals < 0 ? text : text.slice(0, equals);
    if (/\s$/.test(key)) {
      throw new Problem([...path, String(index)], `${JSON.stringify(key)} ends with a blank`);
    }
    record[key] = equals < 0 ? none : text.slice(equals + 1);
  }
  return record;
}

function texts(value: Value, path: Path): string[] {
  if (value === null) return [];
  if (!isList(value)) return [short(value, path)];
  return value.map((item, index) => short(item, [...path, String(index)]));
}

const orNothing = <T extends object>(value: T): T | undefined =>
  Object.keys(value).length > 0 ? value : undefined;

function hosts(value: Value, path: Path): string[] {
  const pairs: [string, string][] = [];
  if (isMapping(value)) {
    for (const [host, addresses] of value) {
      for (const one of texts(addresses ?? "", [...path, host])) pairs.push([host, one]);
    }
  } else {
    for (const [index, item] of texts(value, path).entries()) {
      const separator = item.includes("=") ? "=" : ":";
      const at = item.indexOf(separator);
      if (at < 0) throw new Problem([...path, String(index)], `${item} has no address`);
      for (const one of item.slice(at + 1).split(",")) pairs.push([item.slice(0, at), one]);
    }
  }
  for (const [host] of pairs) {
    if (host === "" || /[:=]/.test(host)) {
      throw new Problem(path, `${JSON.stringify(host)} is no name of a host`);
    }
  }
  const address = (text: string) => /^\[(.+)\]$/.exec(text)?.[1] ?? text;
  return pairs.map(([host, one]) => `${host}=${address(one)}`).sort();
}

function struct(value: Value, shape: Shape, path: Path): Plain {
  if (value === null) return undefined;
  if (!isMapping(value)) throw new Problem(path, `expected a mapping, got ${kindOf(value)}`);
  const record: Record<string, Plain> = {};
  for (const [key, field] of Object.entries(shape.fields!)) {
    const child = value.get(key);
    if (child === undefined && !field.kept) continue;
    const result = child === undefined
      ? zero(field)
      : child === null && !["command", "raw"].includes(field.result)
      ? undefined
      : DECODE[field.result](child, field, [...path, key]);
    if (result !== undefined) record[key] = result;
  }
  for (const [key, child] of value) if (isExtension(key)) record[key] = plain(child);
  return shape.inline ? orNothing(record) : record;
}

/** What a field that is always printed has where it was not written. */
function zero({ result }: Shape): Plain {
  const zeros: Partial<Record<Result, Plain>> = {
    flag: false,
    count: 0,
    text: "",
    size: "0",
    map: {},
  };
  return zeros[result];
}

const DECODE: Record<Result, Decode> = {
  text(value, { kept }, path) {
    const text = short(value, path);
    return text !== "" || kept ? text : undefined;
  },
  flag: (value, { kept }) => value === true || (kept ? false : undefined),
  switch: (value) => value === true,
  count: (value, shape, path) => unlessZero(Math.trunc(numberOf(value, path)), shape),
  number: (value, _shape, path) => Math.trunc(numberOf(value, path)),
  single: (value, shape, path) => unlessZero(shortest(numberOf(value, path)), shape),
  size: (value, shape, path) =>
    unlessZero(
      value instanceof Float
        ? "0"
        : parsed(path, () => memorySize(short(value, path), typeof value === "string")),
      shape,
    ),
  duration: (value, _shape, path) => parsed(path, () => goDuration(short(value, path))),
  delay(value, _shape, path) {
    const text = parsed(path, () => goDuration(short(value, path)));
    return text === "0s" ? undefined : text;
  },
  mode(value, _shape, path) {
    const mode = typeof value === "string" ? parseInt(value, 8) : numberOf(value, path);
    if (typeof value !== "string" || /^[0-7]+$/.test(value)) return `0${mode.toString(8)}`;
    throw new Problem(path, `${JSON.stringify(value)} is no octal number`);
  },
  strings: (value, _shape, path) => orNothing(texts(value, path)),
  command(value, _shape, path) {
    if (value === null) return undefined;
    if (typeof value === "string") return parsed(path, () => shellWords(value));
    return texts(value, path);
  },
  test(value, _shape, path) {
    return typeof value === "string" ? ["CMD-SHELL", value] : orNothing(texts(value, path));
  },
  hosts: (value, _shape, path) => orNothing(hosts(value, path)),
  environment: (value, _shape, path) => orNothing(pairs(value, null, path)),
  labels: (value, _shape, path) => orNothing(pairs(value, "", path)),
  options: (value, _shape, path) => orNothing(pairs(value, "", path)),
  lists(value, _shape, path) {
    if (!isMapping(value)) return undefined;
    return orNothing(plainRecord(value, (child, key) => texts(child, [...path, key])));
  },
  ssh(value, _shape, path) {
    const keys = Object.entries(pairs(value, undefined, path)) as [string, string | undefined][];
    const ids = isMapping(value) ? [...value.keys()] : keys.map(([id]) => id);
    const found = new Map(keys);
    return orNothing(
      ids.sort().map((id) => {
        const file = found.get(id);
        return file === undefined ? { id } : { id, path: file };
      }),
    );
  },
  struct,
  map(value, shape, path) {
    if (!isMapping(value)) return undefined;
    const of = (child: Value, key: string) =>
      child === null ? null : DECODE[shape.values!.result](child, shape.values!, [...path, key]);
    const record = plainRecord(value, of);
    return shape.kept ? record : orNothing(record);
  },
  items(value, shape, path) {
    if (!isList(value)) return undefined;
    return orNothing(
      value.map((item, index) =>
        DECODE[shape.items!.result](item, shape.items!, [...path, String(index)])
      ),
    );
  },
  ulimit(value, shape, path) {
    if (isMapping(value)) return struct(value, shape, path);
    const limit = numberOf(value, path);
    return limit === 0 ? { soft: 0, hard: 0 } : limit;
  },
  devices(value, _shape, path) {
    if (typeof value === "string" && value.toLowerCase() === "all") return -1;
    if (typeof value === "string" && !/^-?\d+$/.test(value)) {
      throw new Problem(path, `${JSON.stringify(value)} is neither all nor a number`);
    }
    return numberOf(value, path) || undefined;
  },
  raw: (value) => plain(value),
  none: () => undefined,
};

/** The value of a project for `value`. Throws {@linkcode Problem}. */
export function decode(value: Value, shape: Shape, path: Path = []): unknown {
  return DECODE[shape.result](value, shape, path);
}
