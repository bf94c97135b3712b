/** The short form of a service's volume: [SOURCE:]TARGET[:OPTIONS]. */
import { posix } from "node:path";
import { Problem } from "../problem.ts";
import type { Path } from "../shape/shape.ts";
import { type Mapping, mapping } from "../yaml/tree.ts";

const PROPAGATION = ["rprivate", "private", "rshared", "shared", "rslave", "slave"];
const SELINUX = ["z", "Z"];

/** Splits at colons, but for those of a Windows drive and within `${…}`. */
function sections(spec: string): string[] {
  const parts: string[] = [];
  let part = "";
  let depth = 0;
  for (const [index, character] of [...spec].entries()) {
    if (character === "$" && spec[index + 1] === "{") depth++;
    else if (character === "}" && depth > 0) depth--;
    const drive = character === ":" && /^\p{L}$/u.test(part);
    if (character === ":" && depth === 0 && !drive) {
      parts.push(part);
      part = "";
    } else part += character;
  }
  return [...parts, part];
}

/** Whether a source is a path of the host, and not the name of a volume. */
export function isHostPath(source: string): boolean {
  return /^[./~]/.test(source) || source.startsWith("\\\\") || /^\p{L}:/u.test(source);
}

/** Throws {@linkcode Problem}. */
export function parseMount(spec: string, path: Path): Mapping {
  if (spec === "") throw new Problem(path, "expected [SOURCE:]TARGET[:OPTIONS], got nothing");
  if (spec.length <= 2) return mapping({ type: "volume", target: clean(spec) });
  const parts = sections(spec);
  if (parts.some((part) => part === "")) {
    throw new Problem(path, `${spec} has nothing between two colons, or after the last one`);
  }
  if (parts.length > 3) throw new Problem(path, `${spec} has too many colons`);
  const [source, target] = parts.length === 1 ? [undefined, parts[0]] : parts;
  const words = parts[2]?.split(",") ?? [];
  const bind: Record<string, string | boolean> = {};
  for (const word of words) {
    if (PROPAGATION.includes(word)) bind.propagation = word;
    if (SELINUX.includes(word)) bind.selinux = word;
  }
  const isBind = source !== undefined && isHostPath(source);
  if (isBind) bind.create_host_path = true;
  const access = words.filter((word) => word === "ro" || word === "rw").at(-1);
  const nocopy = words.includes("nocopy");
  return mapping({
    type: isBind ? "bind" : "volume",
    source,
    target: clean(target),
    read_only: access === "ro" ? true : undefined,
    bind: Object.keys(bind).length > 0 ? mapping(bind) : undefined,
    volume: nocopy ? mapping({ nocopy: true }) : isBind ? undefined : new Map(),
  });
}

export const clean = (target: string): string =>
  target === "" ? "" : posix.normalize(target).replace(/(.)\/$/, "$1");
