/** Makes the relative paths of a tree begin in a directory. */
import { join, posix } from "node:path";
import { Problem } from "./problem.ts";
import { changeChildren, type Path, type PathRule, type Shape } from "./shape/shape.ts";
import { isList, isMapping, type Value } from "./yaml/tree.ts";

export interface PathContext {
  /** May itself be relative: to the directory of the file that includes or extends. */
  directory: string;
  home?: string;
}

type Rule = (value: Value, context: PathContext, path: Path) => Value;

const WINDOWS_ABSOLUTE = /^([a-zA-Z]:[\\/]|[\\/]{2})/;
const REMOTE = /^(https?:\/\/|git:\/\/|ssh:\/\/|github\.com\/|git@)/;

function expandHome(path: string, home: string | undefined): string {
  return path.startsWith("~") && home ? join(home, path.slice(1)) : path;
}

/** A path below the directory, unless it is absolute, on this system or on Windows. */
export function absolute(path: string, { directory, home }: PathContext): string {
  const expanded = expandHome(path, home);
  if (expanded === "" || posix.isAbsolute(expanded) || WINDOWS_ABSOLUTE.test(expanded)) {
    return expanded;
  }
  return trimmed(join(directory, expanded));
}

/** Without the slash at the end that `join` keeps. */
const trimmed = (path: string) => path.length > 1 ? path.replace(/\/$/, "") : path;

function eachText(value: Value, change: (text: string) => string): Value {
  if (typeof value === "string") return change(value);
  if (isList(value)) {
    for (const [index, item] of value.entries()) value[index] = eachText(item, change);
  } else if (isMapping(value)) {
    for (const [key, item] of value) value.set(key, eachText(item, change));
  }
  return value;
}

function context(text: string, directory: PathContext): string {
  const elsewhere = text.includes("://") || text.startsWith("service:") || REMOTE.test(text);
  return elsewhere ? text : absolute(text, directory);
}

/** The path with its symbolic links resolved, where it exists. */
function resolved(path: string): string {
  try {
    return Deno.realPathSync(path);
  } catch {
    return path;
  }
}

const RULES: Record<PathRule, Rule> = {
  path: (value, directory) => eachText(value, (text) => absolute(text, directory)),
  unix: (value, directory) => eachText(value, (text) => absolute(text, directory)),
  context: (value, directory) => eachText(value, (text) => context(text, directory)),
  link: (value, directory) => eachText(value, (text) => resolved(absolute(text, directory))),
  mount(value, directory, path) {
    if (!isMapping(value) || value.get("type") !== "bind") return value;
    const source = value.get("source");
    if (typeof source !== "string") throw new Problem(path, "a bind mount needs a source");
    value.set("source", absolute(source, directory));
    return value;
  },
  driver(value, directory) {
    if (!isMapping(value) || value.get("driver") !== "local") return value;
    const options = value.get("driver_opts");
    if (!isMapping(options) || options.get("o") !== "bind") return value;
    const device = options.get("device");
    if (typeof device === "string") options.set("device", absolute(device, directory));
    return value;
  },
};

/** Works on the tree itself. Throws {@linkcode Problem}. */
export function resolvePaths(
  value: Value,
  shape: Shape | undefined,
  context: PathContext,
  path: Path = [],
): Value {
  if (!shape) return value;
  if (shape.path && value !== null) return RULES[shape.path](value, context, path);
  return changeChildren(
    value,
    shape,
    path,
    (child, of, at) => resolvePaths(child, of, context, at),
  );
}
