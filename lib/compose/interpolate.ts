/**
 * Variables in the text of Compose files and .env files: `$NAME`, `${NAME}`, and with what stands in for a
 * variable `${NAME:-b}`, `${NAME-b}`, `${NAME:+b}`, `${NAME+b}`, `${NAME:?b}`, `${NAME?b}`, where b may have
 * variables itself; `$$` is a dollar sign, and a dollar sign before anything else is itself.
 */

/** The value of a variable; undefined where it is unset. */
export type Lookup = (name: string) => string | undefined;

/** Text that is no template, or a variable that has to have a value. The caller knows where it stands. */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
  constructor(message: string, readonly help?: string) {
    super(message);
  }
}

/** Characters that all templates of one project may become. */
const MOST_TEXT = 32 * 1024 * 1024;
const MOST_DEPTH = 50;
const NAME = /[_a-zA-Z][_a-zA-Z0-9]*/y;
const OPERATOR = /:?[-+?]/y;

type Operator = ":-" | "-" | ":+" | "+" | ":?" | "?";

/** One `${…}` or `$NAME` of a text. */
interface Use {
  name: string;
  operator?: Operator;
  argument?: string;
  /** Index after it. */
  end: number;
}

/** The index of the brace that closes the one at `open`; the last one of the line where none does. */
function closing(text: string, open: number): number {
  let depth = 0;
  let last = -1;
  for (let at = open; at < text.length && text[at] !== "\n"; at++) {
    if (text[at] === "}") {
      last = at;
      if (--depth === 0) return at;
    }
    if (text[at] === "{") {
      depth++;
      at++;
    }
  }
  return last;
}

/** The variable that begins at the dollar sign at `start`; undefined: the dollar sign is itself. */
function parseUse(text: string, start: number): Use | undefined {
  const braced = text[start + 1] === "{";
  NAME.lastIndex = start + (braced ? 2 : 1);
  const name = NAME.exec(text)?.[0];
  if (!braced) return name === undefined ? undefined : { name, end: start + 1 + name.length };
  const after = start + 2 + (name?.length ?? 0);
  if (name !== undefined && text[after] === "}") return { name, end: after + 1 };
  OPERATOR.lastIndex = after;
  const operator = name === undefined
    ? undefined
    : OPERATOR.exec(text)?.[0] as Operator | undefined;
  const close = operator === undefined ? -1 : closing(text, start + 1);
  if (name === undefined || operator === undefined || close < after + operator.length) {
    throw new TemplateError(
      `${JSON.stringify(text.slice(start, start + 40))} is no variable`,
      "write ${NAME} or ${NAME:-default}, and $$ for a dollar sign",
    );
  }
  return { name, operator, argument: text.slice(after + operator.length, close), end: close + 1 };
}

/** Replaces variables; one for each project, since it bounds what all of its text becomes. */
export class Interpolator {
  #bound = { left: MOST_TEXT };

  constructor(
    readonly lookup: Lookup,
    /** Is told of each variable that is unset and has nothing that stands in for it. */
    readonly unset: (name: string) => void = () => {},
  ) {}

  /** An interpolator with other variables and the same bound. */
  with(lookup: Lookup): Interpolator {
    const other = new Interpolator(lookup, this.unset);
    other.#bound = this.#bound;
    return other;
  }

  /** Throws {@linkcode TemplateError}. */
  substitute(text: string, depth = 0): string {
    if (!text.includes("$")) return text;
    if (depth > MOST_DEPTH) throw new TemplateError(`variables within ${MOST_DEPTH} others`);
    const parts: string[] = [];
    let at = 0;
    while (at < text.length) {
      const dollar = text.indexOf("$", at);
      if (dollar < 0) break;
      parts.push(text.slice(at, dollar));
      if (text[dollar + 1] === "$") {
        parts.push("$");
        at = dollar + 2;
        continue;
      }
      const use = parseUse(text, dollar);
      parts.push(use ? this.#value(use, depth) : "$");
      at = use?.end ?? dollar + 1;
      this.#bound.left -= parts.at(-1)!.length;
      if (this.#bound.left < 0) {
        throw new TemplateError(`variables give more than ${MOST_TEXT} characters`);
      }
    }
    parts.push(text.slice(at));
    return parts.join("");
  }

  #value({ name, operator, argument = "" }: Use, depth: number): string {
    const value = this.lookup(name);
    if (operator === undefined) {
      if (value === undefined) this.unset(name);
      return value ?? "";
    }
    // Whether it is used or not: an error in it is always told.
    const other = this.substitute(argument, depth + 1);
    const counts = operator.startsWith(":") ? !!value : value !== undefined;
    if (operator.endsWith("-")) return counts ? value! : other;
    if (operator.endsWith("+")) return counts ? other : value ?? "";
    if (counts) return value!;
    throw new TemplateError(
      `required variable ${name} is missing a value${other ? `: ${other}` : ""}`,
      `set ${name} in the environment or in a .env file`,
    );
  }
}

/** A variable that a file uses. */
export interface Variable {
  required: boolean;
  /** What stands in for it where it is unset, or empty. */
  default: string;
  /** What stands in for it where it is set. */
  alternate: string;
}

/** Adds the variables of a text to `found`; the last use of a name counts. */
export function collectVariables(text: string, found: Map<string, Variable>, depth = 0): void {
  for (let at = text.indexOf("$"); at >= 0 && depth < MOST_DEPTH; at = text.indexOf("$", at)) {
    if (text[at + 1] === "$") {
      at += 2;
      continue;
    }
    let use: Use | undefined;
    try {
      use = parseUse(text, at);
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
    }
    at = use?.end ?? at + 1;
    if (!use) continue;
    const { name, operator, argument = "" } = use;
    found.set(name, {
      required: operator?.endsWith("?") ?? false,
      default: operator?.endsWith("-") ? argument : "",
      alternate: operator?.endsWith("+") ? argument : "",
    });
    if (operator && !operator.endsWith("?")) collectVariables(argument, found, depth + 1);
  }
}
