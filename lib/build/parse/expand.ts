/**
 * Variable expansion as the Dockerfile language has it ("Environment replacement" of its reference): `$name`,
 * `${name}`, the modifiers `:-` `-` `:+` `+` `:?` `?` `#` `##` `%` `%%` `/` `//`, quotes and the escape
 * character. Unset variables are empty.
 */
import { SvcError } from "../../base/errors.ts";
import {
  type ExpandOptions,
  type Expansion,
  type Heredoc,
  heredocText,
  type Scope,
  type Word,
} from "./ast.ts";
import { PatternError, replacePattern, trimPrefix, trimSuffix } from "./shell_pattern.ts";
import { type Modifier, parseWord, type Part, WordSyntaxError } from "./shell_word.ts";

interface Piece {
  text: string;
  quoted: boolean;
}

/** Longest value, so that repeated replacements cannot exhaust the server's memory. */
const MAX_LENGTH = 1 << 20;

/**
 * The value of one word, quotes removed. Throws `dockerfile_invalid` for a syntax error and for a variable
 * that `?` demands.
 */
export function expand(word: Word | string, scope: Scope, options: ExpandOptions = {}): Expansion {
  return evaluate(word, scope, options).expansion;
}

/** {@linkcode expand}, split at unquoted white space, also at white space from a variable; for EXPOSE. */
export function expandWords(
  word: Word | string,
  scope: Scope,
  options: ExpandOptions = {},
): Expansion & { values: string[] } {
  const { expansion, pieces } = evaluate(word, scope, options);
  const values: string[] = [];
  let current = "";
  const end = () => {
    if (current !== "") values.push(current);
    current = "";
  };
  for (const { text, quoted } of pieces) {
    if (quoted) {
      current += text;
      continue;
    }
    const [first, ...rest] = text.split(/\s+/);
    current += first;
    for (const next of rest) {
      end();
      current = next;
    }
  }
  end();
  return { ...expansion, values };
}

/** The content of a COPY or ADD heredoc, expanded. */
export function expandHeredoc(
  heredoc: Heredoc,
  scope: Scope,
  options: Pick<ExpandOptions, "file"> = {},
): Expansion {
  const text = heredocText(heredoc);
  if (!heredoc.expand) return { value: text, used: [], unset: [] };
  // The escape directive does not apply to heredocs: docker always uses the backslash there.
  return expand({ raw: text, line: heredoc.line }, scope, { ...options, rawQuotes: true });
}

/** Names of all variables in a word, in every branch. Throws `dockerfile_invalid` as `expand` does. */
export function variablesOf(word: Word | string, options: ExpandOptions = {}): string[] {
  return [...new Set(variables(parsed(word, options)).map(({ name }) => name))];
}

function variables(parts: Part[]): { name: string }[] {
  return parts.flatMap((part) => {
    if (part.kind === "text") return [];
    const { modifier } = part;
    if (modifier === undefined) return [part];
    if (modifier.kind === "replace") {
      return [part, ...variables(modifier.pattern), ...variables(modifier.replacement)];
    }
    return [part, ...variables("word" in modifier ? modifier.word : modifier.pattern)];
  });
}

/** A scope over a plain record or map. */
export function scopeOf(
  variables: Record<string, string | undefined> | ReadonlyMap<string, string | undefined>,
): Scope {
  if (variables instanceof Map) return { get: (name) => variables.get(name) };
  const record = variables as Record<string, string | undefined>;
  return { get: (name) => Object.hasOwn(record, name) ? record[name] : undefined };
}

function failure(word: Word | string, reason: string, options: ExpandOptions): SvcError {
  const raw = typeof word === "string" ? word : word.raw;
  const shown = JSON.stringify(raw.length > 60 ? `${raw.slice(0, 57)}...` : raw);
  const file = options.file ?? "Dockerfile";
  const where = typeof word === "string" ? "" : ` on line ${word.line} of ${file}`;
  const detail = typeof word === "string" ? undefined : { line: word.line, file };
  return new SvcError("dockerfile_invalid", `Cannot expand ${shown}${where}: ${reason}`, {
    detail,
  });
}

function parsed(word: Word | string, options: ExpandOptions): Part[] {
  const raw = typeof word === "string" ? word : word.raw;
  try {
    return parseWord(raw, {
      escape: options.escape ?? "\\",
      rawQuotes: options.rawQuotes ?? false,
    });
  } catch (error) {
    if (error instanceof WordSyntaxError) throw failure(word, error.message, options);
    throw error;
  }
}

function evaluate(
  word: Word | string,
  scope: Scope,
  options: ExpandOptions,
): { expansion: Expansion; pieces: Piece[] } {
  const used = new Set<string>();
  const unset = new Set<string>();
  const bounded = (text: string): string => {
    if (text.length > MAX_LENGTH) throw failure(word, "its value is longer than 1 MiB", options);
    return text;
  };
  const join = (parts: Part[]): string =>
    bounded(parts.map((part) => part.kind === "text" ? part.text : variable(part)).join(""));

  const variable = (part: Part & { kind: "variable" }): string => {
    const value = scope.get(part.name);
    used.add(part.name);
    if (part.modifier !== undefined) return modified(part.name, value, part.modifier);
    if (value === undefined) unset.add(part.name);
    return value ?? "";
  };

  const modified = (name: string, value: string | undefined, modifier: Modifier): string => {
    if ("emptyIsUnset" in modifier) {
      const missing = value === undefined || modifier.emptyIsUnset && value === "";
      if (modifier.kind === "default") return missing ? join(modifier.word) : value;
      if (modifier.kind === "alternative") return missing ? "" : join(modifier.word);
      if (!missing) return value;
      const message = join(modifier.word);
      const fallback = value === undefined ? "must be set" : "must not be empty";
      throw failure(word, `${name}: ${message || fallback}`, options);
    }
    if (value === undefined) unset.add(name);
    const pattern = join(modifier.pattern);
    const text = value ?? "";
    try {
      if (modifier.kind === "replace") {
        const replacement = join(modifier.replacement);
        return bounded(replacePattern(text, pattern, replacement, modifier.all, MAX_LENGTH));
      }
      const trim = modifier.kind === "prefix" ? trimPrefix : trimSuffix;
      return trim(text, pattern, modifier.greedy);
    } catch (error) {
      if (!(error instanceof PatternError)) throw error;
      throw failure(word, `${name}: ${error.message}`, options);
    }
  };

  const pieces = parsed(word, options).map((part): Piece => ({
    text: part.kind === "text" ? part.text : variable(part),
    quoted: part.quoted,
  }));
  const value = bounded(pieces.map((piece) => piece.text).join(""));
  return { expansion: { value, used: [...used], unset: [...unset] }, pieces };
}
