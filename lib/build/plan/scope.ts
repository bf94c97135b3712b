/** Variables of a Dockerfile: build arguments, what the platform gives, and ENV above both. */
import { type Platform } from "../../oci/types.ts";
import { formatPlatform } from "../../oci/platform.ts";
import type { ArgInstruction, Scope, Word } from "../parse/ast.ts";
import { expand } from "../parse/expand.ts";
import type { LimitsUsed } from "../parse/limits.ts";
import { PROXY_ARGS } from "../parse/predefined.ts";

/** Expands a word; bound to the file's escape character and name. */
export type Expand = (word: Word, scope: Scope) => string;

export function expander(escape: "\\" | "`", file: string, usage: LimitsUsed): Expand {
  return (word, scope) => {
    const { value } = expand(word, scope, { escape, file });
    usage.add("expanded", value.length, word.line);
    return value;
  };
}

/** BUILD… and TARGET… of the reference, "Automatic platform ARGs in the global scope". */
export function platformArgs(
  build: Platform,
  target: Platform,
  stage: string,
): Map<string, string> {
  const args = new Map<string, string>();
  for (const [prefix, platform] of [["BUILD", build], ["TARGET", target]] as const) {
    args.set(`${prefix}PLATFORM`, formatPlatform(platform));
    args.set(`${prefix}OS`, platform.os);
    args.set(`${prefix}OSVERSION`, platform["os.version"] ?? "");
    args.set(`${prefix}ARCH`, platform.architecture);
    args.set(`${prefix}VARIANT`, platform.variant ?? "");
  }
  args.set("TARGETSTAGE", stage);
  return args;
}

/** Proxies from build arguments, in both spellings: steps see them without an ARG. */
export function proxyEnv(buildArgs: Record<string, string>): string[] {
  const given = new Map(
    Object.keys(buildArgs).sort().map((name) => [name.toUpperCase(), buildArgs[name]]),
  );
  return PROXY_ARGS.flatMap((name) => {
    const value = given.get(name.toUpperCase());
    return value === undefined ? [] : [`${name}=${value}`];
  });
}

/** The ARGs before the first FROM, with what the caller gave. */
export class GlobalScope implements Scope {
  #values = new Map<string, string | undefined>();
  /** Names declared by an ARG or predefined by the platform. */
  readonly declared = new Set<string>();

  constructor(
    readonly platform: ReadonlyMap<string, string>,
    readonly buildArgs: Record<string, string>,
    instructions: ArgInstruction[],
    expandWord: Expand,
  ) {
    for (const [name, value] of platform) this.#values.set(name, value);
    for (const { key, value } of instructions.flatMap((instruction) => instruction.args)) {
      const name = expandWord(key, this);
      const given = Object.hasOwn(buildArgs, name) ? buildArgs[name] : undefined;
      this.declared.add(name);
      if (given !== undefined) this.#values.set(name, given);
      else if (value !== undefined) this.#values.set(name, expandWord(value, this));
      else if (!platform.has(name)) this.#values.set(name, undefined);
    }
  }

  get(name: string): string | undefined {
    return this.#values.get(name);
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }
}

/**
 * Variables of one stage. ARG and ENV share one set of names: a step sees the value that comes last before
 * it. Only ENV is part of the image.
 */
export class StageScope implements Scope {
  /** Values that words and steps see. */
  #values = new Map<string, string>();
  /** Names declared by an ARG, in order. */
  #args = new Set<string>();
  /** Index of each name in {@linkcode env}. */
  #places = new Map<string, number>();

  constructor(
    readonly global: GlobalScope,
    /** `NAME=value` of the image's configuration; the stage changes this array. */
    readonly env: string[],
  ) {
    for (const [at, entry] of env.entries()) {
      const equals = entry.indexOf("=");
      if (equals <= 0) continue;
      const name = entry.slice(0, equals);
      this.#values.set(name, entry.slice(equals + 1));
      if (!this.#places.has(name)) this.#places.set(name, at);
    }
  }

  get(name: string): string | undefined {
    return this.#values.get(name);
  }

  /** Names of all variables that are set. */
  names(): string[] {
    return [...this.#values.keys()];
  }

  setEnv(name: string, value: string): void {
    const at = this.#places.get(name) ?? this.env.length;
    this.#places.set(name, at);
    this.env[at] = `${name}=${value}`;
    this.#values.set(name, value);
  }

  /**
   * ARG inside a stage: takes the caller's value, else the default, else the global one. Returns that value.
   */
  declare(name: string, fallback: string | undefined): string | undefined {
    const { buildArgs } = this.global;
    const given = Object.hasOwn(buildArgs, name) ? buildArgs[name] : undefined;
    const value = given ?? fallback ?? this.global.get(name);
    this.#args.add(name);
    if (value !== undefined) this.#values.set(name, value);
    return value;
  }

  /** `NAME=value` of the declared arguments, in order of declaration; for the history. */
  visibleArgs(): string[] {
    return [...this.#args].map((name) => `${name}=${this.#values.get(name) ?? ""}`);
  }

  /** `NAME=value` of all variables that a step sees. */
  stepEnv(): string[] {
    return [...this.#values].map(([name, value]) => `${name}=${value}`);
  }

  /** Hands all declarations so far to a stage that begins with this one. */
  inherit(other: StageScope): void {
    for (const [name, value] of other.#values) this.#values.set(name, value);
    for (const name of other.#args) this.#args.add(name);
  }
}
