/** Parser directives: the `# name=value` lines before anything else ("Parser directives" of the reference). */
import type { Directives } from "./ast.ts";
import { parseError } from "./line.ts";
import { splitLines } from "./source.ts";

const NAMES = ["syntax", "escape", "check"];

/** The directives, and the number of lines that they take. Throws `dockerfile_invalid`. */
export function parseDirectives(
  text: string,
  file: string,
): { directives: Directives; lines: number } {
  const directives: Directives = { escape: "\\" };
  const seen = new Set<string>();
  const lines = splitLines(text);
  let at = 0;
  // A Dockerfile may itself be an executable script: `#!/usr/bin/env -S docker build -f`.
  if (lines[0]?.startsWith("#!")) at = 1;
  for (; at < lines.length; at++) {
    const match = /^\s*#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=(.+)$/.exec(lines[at]);
    const name = match?.[1].toLowerCase() ?? "";
    if (!match || match[2].trim() === "" || !NAMES.includes(name)) break;
    const position = { file, line: at + 1 };
    const directive = `directive ${name}`;
    if (seen.has(name)) throw parseError(directive, position, "it is given twice");
    seen.add(name);
    const value = match[2].trim();
    if (name === "syntax") directives.syntax = value;
    else if (name === "escape") {
      if (value !== "\\" && value !== "`") {
        throw parseError(directive, position, `it is \\ or \`, not ${JSON.stringify(value)}`);
      }
      directives.escape = value;
    } else {
      const check = parseCheck(value);
      if ("reason" in check) throw parseError(directive, position, check.reason);
      directives.check = check;
    }
  }
  return { directives, lines: at };
}

/** `skip=RuleA,RuleB;error=true;experimental=all` */
export function parseCheck(
  value: string,
): NonNullable<Directives["check"]> | { reason: string } {
  const check: NonNullable<Directives["check"]> = { skip: [], error: false, experimental: [] };
  for (const part of value.split(";")) {
    const [key, ...rest] = part.split("=");
    const name = key.trim().toLowerCase();
    const setting = rest.join("=").trim();
    if (rest.length === 0) return { reason: `${JSON.stringify(part)} has no "="` };
    if (name === "skip" || name === "experimental") {
      const rules = setting.split(",").map((rule) => rule.trim()).filter((rule) => rule !== "");
      check[name] = rules.some((rule) => rule.toLowerCase() === "all") ? "all" : rules;
    } else if (name === "error") {
      if (!/^(true|false|1|0|t|f)$/i.test(setting)) {
        return { reason: `error is true or false, not ${JSON.stringify(setting)}` };
      }
      check.error = /^(true|1|t)$/i.test(setting);
    } else return { reason: `${JSON.stringify(name)} is none of skip, error and experimental` };
  }
  return check;
}
