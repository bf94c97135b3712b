/** What makes two items of a list the same thing, of which the later one counts. */
import { parseMount } from "./forms/mount.ts";
import { Problem } from "./problem.ts";
import type { Identity, Path } from "./shape/shape.ts";
import { isMapping, type Mapping, type Scalar, type Value } from "./yaml/tree.ts";
import { textOf } from "./yaml/scalar.ts";

type Rule = (item: Value, path: Path) => string;

function needed(item: Mapping, key: string, path: Path): string {
  const value = item.get(key);
  if (typeof value === "string") return value;
  throw new Problem(path, `${key} is missing`);
}

const below = (folder: string): Rule => (item, path) => {
  if (typeof item === "string") return `${folder}/${item}`;
  if (!isMapping(item)) throw new Problem(path, "expected text or a mapping");
  const target = item.get("target");
  return typeof target === "string"
    ? target
    : `${folder}/${textOf(item.get("source") as Scalar ?? null)}`;
};

function port(item: Value, path: Path): string {
  if (!isMapping(item)) return textOf(item as Scalar);
  if (!item.has("target")) throw new Problem(path, "target is missing");
  const published = item.get("published");
  // A number and the text of it are two things here, as they are in docker compose.
  const shown = typeof published === "string" ? published : `#${published}`;
  const [host, protocol] = [item.get("host_ip") ?? "0.0.0.0", item.get("protocol") ?? "tcp"];
  return `${host}:${shown}:${item.get("target")}/${protocol}`;
}

const RULES: Record<Identity, Rule> = {
  name(item, path) {
    if (typeof item === "string") return item.split("=", 1)[0];
    throw new Problem(path, "expected text");
  },
  mount: (item, path) =>
    isMapping(item)
      ? needed(item, "target", path)
      : String(parseMount(String(item), path).get("target") ?? ""),
  device(item, path) {
    if (isMapping(item)) return needed(item, "target", path);
    const parts = String(item).split(":");
    return parts[1] ?? parts[0];
  },
  config: below(""),
  secret: below("/run/secrets"),
  expose(item, path) {
    if (typeof item === "string" || typeof item === "number") return String(item);
    throw new Problem(path, "expected a port");
  },
  port,
  envFile: (item, path) => isMapping(item) ? needed(item, "path", path) : String(item),
};

export function identityOf(identity: Identity, item: Value, path: Path): string {
  return RULES[identity](item, path);
}
