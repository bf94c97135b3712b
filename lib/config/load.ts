/**
 * Reads flags and variables: a table of option records in, typed values out. Precedence: flag, then the
 * record's variables in order, then its default.
 */
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import { type Kinds, type Option, parseOption } from "./option.ts";

/** The command in the error catalogue's help for a wrong value. */
const SERVE = "svc serve";

/** An option of any kind, its `check` still typed by that kind. */
export type AnyOption = { [K in keyof Kinds]: Option<K> }[keyof Kinds];

/** The record a table loads into: optional where the option has no default. */
export type Values<T extends readonly AnyOption[]> = {
  [O in T[number] as O["key"]]: O extends { default: Kinds[keyof Kinds] } ? Kinds[O["kind"]]
    : Kinds[O["kind"]] | undefined;
};

export interface LoadInput {
  /** The words after the command's name. */
  args: readonly string[];
  env?: Readonly<Record<string, string | undefined>>;
  /** True: words that are not flags are collected; otherwise the first one is an error. */
  allowPositionals?: boolean;
  /** After this many positionals the other words are not parsed, flags included (`svc exec NAME ls -l`). */
  passThroughAfter?: number;
  /** "svc build": named in the help of an error. */
  command?: string;
  /** Rules between several values; runs before options of missing subsystems are refused. */
  check?: (values: Readonly<Record<string, Kinds[keyof Kinds] | undefined>>) => void;
}

export interface Loaded<T extends readonly AnyOption[]> {
  values: Values<T>;
  positionals: string[];
  /** Source of each value ("--addr", "SVC_ADDR"); no entry for a default. */
  sources: Partial<Record<string, string>>;
}

interface Given {
  option: AnyOption;
  source: string;
  /** One text per occurrence; the last counts unless the option is a list. */
  texts: string[];
}

class ArgumentReader {
  readonly given = new Map<string, Given>();
  readonly positionals: string[] = [];
  readonly #table: readonly AnyOption[];
  readonly #input: LoadInput;
  #at = 0;

  constructor(table: readonly AnyOption[], input: LoadInput) {
    this.#table = table;
    this.#input = input;
  }

  read(): void {
    const { args, passThroughAfter = Infinity } = this.#input;
    while (this.#at < args.length) {
      const word = args[this.#at++];
      if (word === "--") {
        for (const rest of args.slice(this.#at)) this.#positional(rest);
        return;
      }
      if (word.startsWith("--")) this.#long(word);
      else if (word.length > 1 && word.startsWith("-")) this.#shorts(word);
      else this.#positional(word);
      if (this.positionals.length >= passThroughAfter) {
        const rest = args.slice(this.#at);
        this.positionals.push(...(rest[0] === "--" ? rest.slice(1) : rest));
        return;
      }
    }
  }

  #positional(word: string): void {
    if (!this.#input.allowPositionals) throw this.#usage(word, "no argument is expected here");
    this.positionals.push(word);
  }

  #long(word: string): void {
    const equals = word.indexOf("=");
    const name = equals < 0 ? word.slice(2) : word.slice(2, equals);
    const inline = equals < 0 ? undefined : word.slice(equals + 1);
    const option = this.#table.find((o) => o.flag === name);
    if (option) return this.#take(option, `--${name}`, inline);
    const negated = name.startsWith("no-") &&
      this.#table.find((o) => o.negatable && o.flag === name.slice(3));
    if (negated) {
      if (inline !== undefined) throw this.#usage(word, "this flag takes no value");
      return this.#give(negated, `--${name}`, "false");
    }
    const flags = this.#table.flatMap((o) =>
      o.flag === undefined ? [] : o.negatable ? [o.flag, `no-${o.flag}`] : [o.flag]
    );
    throw this.#usage(`--${name}`, `unknown flag${suggestion(name, flags, "--")}`);
  }

  /** `-f x`, `-fx`, `-f=x`, and bools together: `-qt x`. */
  #shorts(word: string): void {
    for (let i = 1; i < word.length; i++) {
      const option = this.#table.find((o) => o.short === word[i]);
      if (!option) {
        const whole = word.length > 2 ? suggestion(word.slice(1), this.#flags(), "--") : "";
        throw this.#usage(`-${word[i]}`, `unknown flag${whole}`);
      }
      const rest = word.slice(i + 1);
      const source = `-${word[i]}`;
      if (option.kind === "bool" && !rest.startsWith("=")) {
        this.#give(option, source, "true");
        continue;
      }
      return this.#take(option, source, rest === "" ? undefined : rest.replace(/^=/, ""));
    }
  }

  #flags(): string[] {
    return this.#table.flatMap((o) => o.flag ?? []);
  }

  #take(option: AnyOption, source: string, inline: string | undefined): void {
    if (inline !== undefined) return this.#give(option, source, inline);
    if (option.kind === "bool") return this.#give(option, source, "true");
    const value = this.#input.args[this.#at];
    if (value === undefined) {
      throw this.#usage(source, `a value is missing (${option.placeholder ?? option.kind})`);
    }
    this.#at++;
    this.#give(option, source, value);
  }

  #give(option: AnyOption, source: string, text: string): void {
    const before = this.given.get(option.key);
    this.given.set(option.key, { option, source, texts: [...before?.texts ?? [], text] });
  }

  #usage(what: string, why: string): SvcError {
    return new SvcError("usage", `Cannot read ${what}: ${why}`, {
      help: `see \`${this.#input.command ?? "svc"} --help\``,
    });
  }
}

function fromEnvironment(option: AnyOption, env: LoadInput["env"] = {}): Given | undefined {
  const given = (option.env ?? []).flatMap((source): Given[] => {
    const text = env[source];
    return text === undefined || text === "" ? [] : [{ option, source, texts: [text] }];
  });
  const [first, ...others] = given;
  const other = option.agree && others.find((other) => !same(value(other), value(first)));
  if (!other) return first;
  throw new SvcError(
    "config_invalid",
    `Cannot use ${first.source}: ${other.source} is another name of it and has another value`,
    { help: "unset one of the two" },
  );
}

function value({ option, source, texts }: Given): Kinds[keyof Kinds] {
  // TypeScript does not correlate the union's members; parseOption's own types hold for each.
  const parse = (text: string) => parseOption(option as Option, text, source);
  if (option.kind !== "list") return parse(texts.at(-1)!);
  if (!option.verbatim) return parse(texts.join(","));
  return option.check ? option.check(texts, source) : texts;
}

function same(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

/** The error of a value; its help names this command unless it has a help of its own. */
function valueOf(given: Given, command: string | undefined) {
  try {
    return value(given);
  } catch (error) {
    const plain = error instanceof SvcError && error.code === "config_invalid" &&
      error.help === new SvcError("config_invalid", "").help;
    if (!plain || command === undefined || command === SERVE) throw error;
    throw new SvcError("config_invalid", error.message, {
      cause: error,
      help: `correct the flag or the variable; \`${command} --help\` lists them`,
    });
  }
}

/**
 * Reads flags and variables. Throws `usage` for a malformed command line (suggesting the nearest name),
 * `config_invalid` for a value that its option refuses, and `not_in_build` where an option of a missing
 * subsystem is set to anything but its default. An empty variable counts as unset.
 */
export function loadOptions<const T extends readonly AnyOption[]>(
  table: T,
  input: LoadInput,
): Loaded<T> {
  const reader = new ArgumentReader(table, input);
  reader.read();
  const values: Record<string, Kinds[keyof Kinds] | undefined> = {};
  const sources: Record<string, string> = {};
  for (const option of table) {
    const given = reader.given.get(option.key) ?? fromEnvironment(option, input.env);
    values[option.key] = given ? valueOf(given, input.command) : option.default;
    if (given) sources[option.key] = given.source;
  }
  input.check?.(values);
  for (const { key, absent, default: usual } of table) {
    if (!absent || !(key in sources) || same(values[key], usual)) continue;
    throw new SvcError(
      "not_in_build",
      `Cannot use ${sources[key]}: ${absent} is not in this build yet`,
    );
  }
  return { values: values as Values<T>, positionals: reader.positionals, sources };
}
