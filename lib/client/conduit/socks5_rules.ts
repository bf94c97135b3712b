/** Resolve rules (SPEC.md "ResolveRule"): a pattern for `host:port`, a template of `service:port`. */
import type { Context, Script } from "node:vm";
import { SvcError } from "../../base/errors.ts";

export interface ResolveRule {
  /** Regular expression. */
  pattern: string;
  /** `\1` to `\9` are the pattern's groups, `\0` the whole match, `\\` a backslash. */
  replace: string;
}

/** A port of a deployment. */
export interface ServicePort {
  name: string;
  port: number;
}

const DIGITS = /^[1-9]\d{0,4}$/;
/** A deployment's name. */
const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

export const isServiceName = (name: string): boolean => NAME.test(name);

/** Parses "web:80"; undefined for an invalid text. */
export function servicePort(text: string): ServicePort | undefined {
  const colon = text.lastIndexOf(":");
  const name = text.slice(0, Math.max(colon, 0)).toLowerCase();
  const digits = text.slice(colon + 1);
  if (!NAME.test(name) || !DIGITS.test(digits) || Number(digits) > 65535) return undefined;
  return { name, port: Number(digits) };
}

interface Compiled {
  rule: ResolveRule;
  pattern: RegExp;
  /** Literal texts, and numbers of groups. */
  template: (string | number)[];
}

const words = (index: number) => `resolve rule ${index + 1}`;

function invalid(index: number, why: string, cause?: unknown): SvcError {
  return new SvcError("config_invalid", `Cannot use ${words(index)}: ${why}`, {
    cause,
    help: "correct conduit.socks5.resolve of the connection profile, or --resolve",
  });
}

function parseTemplate(text: string): (string | number)[] | undefined {
  const parts: (string | number)[] = [];
  for (const [whole, escaped] of text.matchAll(/\\(.?)|[^\\]+/gs)) {
    if (escaped === undefined) parts.push(whole);
    else if (/\d/.test(escaped)) parts.push(Number(escaped));
    else if (escaped === "\\") parts.push(escaped);
    else return undefined;
  }
  return parts;
}

function compile(rule: ResolveRule, index: number): Compiled {
  const shown = JSON.stringify(rule.replace);
  let pattern: RegExp;
  let groups: number;
  try {
    pattern = new RegExp(rule.pattern);
    // With an empty alternative the pattern always matches, and the match tells how many groups it has.
    groups = new RegExp(`${rule.pattern}|`).exec("")!.length - 1;
  } catch (error) {
    const why = `${JSON.stringify(rule.pattern)} is not a regular expression`;
    throw invalid(index, why, error);
  }
  const template = parseTemplate(rule.replace);
  if (!template) throw invalid(index, `${shown} has a backslash with neither digit nor backslash`);
  const missing = template.find((part) => typeof part === "number" && part > groups);
  if (missing !== undefined) {
    throw invalid(index, `${shown} has \\${missing}, and the pattern has ${groups} groups`);
  }
  const fixed = template.every((part) => typeof part === "string");
  if (fixed && !servicePort(template.join(""))) {
    throw invalid(index, `${shown} is not service:port`);
  }
  return { rule, pattern, template };
}

/**
 * Checked rules in their order. A user's pattern may take for ever on some subjects, and there is one thread:
 * matching is stopped after `ruleMs` milliseconds.
 */
export class ResolveRules {
  readonly #rules: Compiled[];
  readonly #ruleMs: number;
  readonly #context: Context;
  readonly #script: Script;

  private constructor(rules: Compiled[], ruleMs: number, vm: typeof import("node:vm")) {
    this.#rules = rules;
    this.#ruleMs = ruleMs;
    this.#context = vm.createContext({});
    this.#script = new vm.Script("pattern.exec(subject)");
  }

  /** Throws `config_invalid`, naming the rule. */
  static async compile(rules: readonly ResolveRule[], ruleMs = 1_000): Promise<ResolveRules> {
    const compiled = rules.map(compile);
    return new ResolveRules(compiled, ruleMs, await import("node:vm"));
  }

  #match(index: number, subject: string): RegExpExecArray | null {
    Object.assign(this.#context, { pattern: this.#rules[index].pattern, subject });
    try {
      return this.#script.runInContext(this.#context, { timeout: this.#ruleMs });
    } catch (error) {
      throw new SvcError(
        "timeout",
        `Cannot use ${words(index)} on ${subject}: its pattern did not end in ${this.#ruleMs} ms`,
        { cause: error, help: "write the pattern without repetitions inside repetitions" },
      );
    }
  }

  /**
   * The result of the first rule that matches `host:port`; undefined where none does. The filled-in template is
   * the whole result: text outside the match is dropped. Throws `config_invalid` where the result is not a
   * service and port, `timeout` for a pattern that does not end.
   */
  apply(subject: string): ServicePort | undefined {
    for (const [index, { rule, template }] of this.#rules.entries()) {
      const match = this.#match(index, subject);
      if (!match) continue;
      const text = template.map((part) => typeof part === "string" ? part : match[part] ?? "")
        .join("");
      const found = servicePort(text);
      if (found) return found;
      const made = `${JSON.stringify(rule.replace)} makes ${JSON.stringify(text)} of ${subject}`;
      throw invalid(index, `${made}, which is not service:port`);
    }
    return undefined;
  }
}
