/** Prints a loaded project as docker compose prints it: fields in its order, keys of the user's own sorted. */
import type { LoadedProject } from "./project.ts";
import type { EnvFile, Service } from "./service.ts";
import { FILE } from "./shape/resources.ts";
import { SERVICE } from "./shape/service.ts";
import { isExtension, type Shape } from "./shape/shape.ts";
import { Float, isList, isMapping, type Mapping, mapping, type Value } from "./yaml/tree.ts";
import { compareKeys, writeYaml } from "./yaml/write.ts";

export type Format = "yaml" | "json";

const byText = (a: string, b: string) => a < b ? -1 : a > b ? 1 : 0;

function sortedEntries(record: object, format: Format): [string, unknown][] {
  const compare = format === "yaml" ? compareKeys : byText;
  return Object.entries(record).sort(([a], [b]) => compare(a, b));
}

/** Plain data as it was written, keys sorted. */
function rawTree(value: unknown, format: Format): Value {
  if (value === undefined || value === null) return null;
  if (typeof value === "number") return Number.isInteger(value) ? value : new Float(value);
  if (typeof value !== "object") return value as Value;
  if (Array.isArray(value)) return value.map((item) => rawTree(item, format));
  return new Map(sortedEntries(value, format).map(([key, child]) => [key, rawTree(child, format)]));
}

function sshTree(keys: { id: string; path?: string }[], format: Format): Value {
  const separator = format === "yaml" ? ": " : "=";
  return keys.map(({ id, path }) => path === undefined ? id : `${id}${separator}${path}`);
}

/** The short form, where that says all. */
function envFileTree({ path, required, format: parser }: EnvFile, format: Format): Value {
  if (required) return path;
  return mapping({ path, required, format: format === "json" ? parser : undefined });
}

/** A struct that JSON has even where the project does not. */
function emptyStruct(shape: Shape): Mapping {
  const result: Mapping = new Map();
  for (const [key, field] of Object.entries(shape.fields ?? {})) {
    if (field.always === "null") result.set(key, null);
  }
  return result;
}

const isEmpty = (value: unknown) =>
  typeof value === "object" && value !== null && Object.keys(value).length === 0;

function structTree(
  value: Record<string, unknown>,
  shape: Shape,
  format: Format,
  top: boolean,
): Mapping {
  const result: Mapping = new Map();
  const json = format === "json";
  for (const [key, field] of Object.entries(shape.fields!)) {
    const name = json ? field.jsonName ?? key : key;
    const child = value[key];
    if (top && !field.kept && isEmpty(child)) continue;
    // What a variable says is not printed, but the variable is.
    if (key === "content" && value.environment !== undefined) continue;
    if (json && shape.result === "ulimit" && child === 0) continue;
    if (child !== undefined && child !== null) result.set(name, tree(child, field, format));
    else if (json && field.always) {
      result.set(name, field.always === "null" ? null : emptyStruct(field));
    }
  }
  // In JSON docker compose leaves out keys of a user's own but for those of the top level.
  if (json && !top) return result;
  for (const [key, child] of sortedEntries(value, format)) {
    if (isExtension(key)) result.set(key, rawTree(child, format));
  }
  return result;
}

function tree(value: unknown, shape: Shape, format: Format, top = false): Value {
  if (value === null) return null;
  if (shape.result === "ssh") return sshTree(value as { id: string; path?: string }[], format);
  if (shape.form === "envFiles") {
    return (value as EnvFile[]).map((file) => envFileTree(file, format));
  }
  if (shape.fields && typeof value === "object" && !Array.isArray(value)) {
    return structTree(value as Record<string, unknown>, shape, format, top);
  }
  if (shape.result === "map") {
    return new Map(
      sortedEntries(value as object, format).map((
        [key, child],
      ) => [key, tree(child, shape.values!, format)]),
    );
  }
  if (shape.result === "items") {
    return (value as unknown[]).map((item) => tree(item, shape.items!, format));
  }
  return rawTree(value, format);
}

const GO_ESCAPES: Record<string, string> = {
  "<": "\\u003c",
  ">": "\\u003e",
  "&": "\\u0026",
  "\u2028": "\\u2028",
  "\u2029": "\\u2029",
};

function jsonScalar(value: Value): string {
  if (value instanceof Float) return JSON.stringify(value.value);
  if (typeof value === "bigint") return String(value);
  return JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, (found) => GO_ESCAPES[found]);
}

/** JSON with the keys in the tree's order; without an indentation on one line. */
export function writeJson(value: Value, indent = "", step = "  "): string {
  const inner = indent + step;
  const [open, between, close] = step === ""
    ? ["", ",", ""]
    : [`\n${inner}`, `,\n${inner}`, `\n${indent}`];
  const colon = step === "" ? ":" : ": ";
  if (isList(value)) {
    if (value.length === 0) return "[]";
    return `[${open}${value.map((item) => writeJson(item, inner, step)).join(between)}${close}]`;
  }
  if (!isMapping(value)) return jsonScalar(value);
  if (value.size === 0) return "{}";
  const entries = Array.from(
    value,
    ([key, child]) => `${jsonScalar(key)}${colon}${writeJson(child, inner, step)}`,
  );
  return `{${open}${entries.join(between)}${close}}`;
}

/** A dollar sign is two, so that the text is a Compose file that says the same. */
const escapeDollars = (text: string) => text.replaceAll("$", "$$$$");

/** Of a YAML text or a JSON text as docker compose prints them. */
export function printProject({ project }: Pick<LoadedProject, "project">, format: Format): string {
  const whole = tree(project, FILE, format, true) as Mapping;
  if (format === "yaml") return escapeDollars(writeYaml(whole));
  // JSON has the top level sorted, and no models.
  whole.delete("models");
  return escapeDollars(writeJson(new Map([...whole].sort(([a], [b]) => byText(a, b)))));
}

/** A tree that was not made a project, as `config --no-interpolate` prints it: all keys sorted. */
export function printModel(root: Mapping, format: Format): string {
  const sort = (value: Value): Value => {
    if (isList(value)) return value.map(sort);
    if (!isMapping(value)) return value;
    const compare = format === "yaml" ? compareKeys : byText;
    return new Map(
      [...value].sort(([a], [b]) => compare(a, b)).map(([key, child]) => [key, sort(child)]),
    );
  };
  const sorted = sort(root) as Mapping;
  return format === "yaml" ? writeYaml(sorted) : writeJson(sorted);
}

/** The text over which docker compose computes the hash of a service. */
export function serviceJson(service: Service): string {
  const {
    build: _build,
    pull_policy: _policy,
    scale: _scale,
    depends_on: _on,
    profiles: _profiles,
    ...rest
  } = service;
  const { replicas: _replicas, ...deploy } = rest.deploy ?? {};
  const own = rest.deploy ? { ...rest, deploy } : rest;
  return writeJson(tree(own, SERVICE, "json"), "", "");
}
