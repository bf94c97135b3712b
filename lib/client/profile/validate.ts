/** Checks documents against the field tables. Each error names the path of the wrong value. */
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import type { Field } from "./field.ts";
import { CONTEXT_FIELDS, contextTogether } from "./fields.ts";
import type { Context, Profile } from "./types.ts";

type Block = Record<string, unknown>;

const isBlock = (value: unknown): value is Block =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (isBlock(value)) return "a block";
  return typeof value === "string"
    ? "text"
    : typeof value === "boolean"
    ? "true or false"
    : "a number";
}

/** `contexts.prod.tls`, `contexts."a b".tls` */
export function child(path: string, name: string): string {
  const word = /^[\w-]+$/.test(name) ? name : JSON.stringify(name);
  return path === "" ? word : `${path}.${word}`;
}

/** What the caller does with the document; for errors. */
type Verb = "read" | "write";

class Checker {
  /** Names the document in errors. */
  readonly #source: string;
  readonly #verb: Verb;

  constructor(source: string, verb: Verb = "read") {
    this.#source = source;
    this.#verb = verb;
  }

  fail(path: string, why: string): SvcError {
    const written = this.#verb === "write";
    return new SvcError("config_invalid", `Cannot ${this.#verb} ${this.#source}: ${path}: ${why}`, {
      help: written
        ? "nothing has changed; docs/reference/profile.md lists the fields"
        : "correct the named field; docs/reference/profile.md lists them",
    });
  }

  #wrong(path: string, expected: string, value: unknown): SvcError {
    return this.fail(path, `expected ${expected}, got ${kindOf(value)}`);
  }

  block(path: string, value: unknown, fields: readonly Field[]): Block {
    if (value === null || value === undefined) return {};
    if (!isBlock(value)) throw this.#wrong(path, "a block", value);
    const found: Block = {};
    for (const [name, item] of Object.entries(value)) {
      const field = fields.find((field) => field.name === name);
      if (!field) {
        const near = suggestion(name, fields.map((field) => field.name));
        throw this.fail(child(path, name), `unknown field${near}`);
      }
      // An empty value counts as unset.
      if (item === null || item === "") continue;
      found[name] = this.#value(child(path, name), item, field);
    }
    return found;
  }

  #value(path: string, value: unknown, field: Field): unknown {
    switch (field.kind) {
      case "string":
        if (typeof value !== "string") throw this.#wrong(path, "text", value);
        if (field.choices && !field.choices.includes(value)) {
          const words = field.choices.filter((word) => word !== "");
          throw this.fail(
            path,
            `${JSON.stringify(value)} is not one of ${words.join(", ")}${suggestion(value, words)}`,
          );
        }
        break;
      case "bool":
        if (typeof value !== "boolean") throw this.#wrong(path, "true or false", value);
        break;
      case "int":
        if (typeof value !== "number") throw this.#wrong(path, "a whole number", value);
        if (!Number.isSafeInteger(value)) throw this.fail(path, `${value} is not a whole number`);
        break;
      case "strings":
        if (!Array.isArray(value)) throw this.#wrong(path, "a list", value);
        value.forEach((item, i) => {
          if (typeof item !== "string") throw this.#wrong(`${path}[${i}]`, "text", item);
          if (item.trim() === "") throw this.fail(`${path}[${i}]`, "it is empty");
        });
        break;
      case "block":
        return this.#together(path, this.block(path, value, field.fields!), field);
      case "blocks":
        if (!Array.isArray(value)) throw this.#wrong(path, "a list", value);
        return value.map((item, i) => {
          const at = `${path}[${i}]`;
          return this.#together(at, this.block(at, item, field.fields!), field);
        });
    }
    const why = field.check?.(value as never);
    if (why) throw this.fail(path, why);
    return value;
  }

  #together(path: string, block: Block, { together }: Field): Block {
    const wrong = together?.(block);
    if (wrong) throw this.fail(child(path, wrong.field), wrong.why);
    return block;
  }

  context(path: string, value: unknown): Context {
    const block = this.block(path, value, CONTEXT_FIELDS);
    const wrong = contextTogether(block);
    if (wrong) throw this.fail(child(path, wrong.field), wrong.why);
    return block as Context;
  }
}

/** A whole profile document. `source` names it in the `config_invalid` error. */
export function checkProfile(document: unknown, source: string, verb?: Verb): Profile {
  const checker = new Checker(source, verb);
  if (document === null || document === undefined) return { contexts: {} };
  if (!isBlock(document)) {
    throw new SvcError(
      "config_invalid",
      `Cannot read ${source}: expected fields, got ${kindOf(document)}`,
    );
  }
  const known = ["current-context", "contexts"];
  for (const name of Object.keys(document)) {
    if (!known.includes(name)) {
      throw checker.fail(child("", name), `unknown field${suggestion(name, known)}`);
    }
  }
  const { "current-context": current, contexts } = document;
  if (current !== undefined && current !== null && typeof current !== "string") {
    throw checker.fail("current-context", `expected text, got ${kindOf(current)}`);
  }
  if (contexts !== undefined && contexts !== null && !isBlock(contexts)) {
    throw checker.fail("contexts", `expected a block, got ${kindOf(contexts)}`);
  }
  const checked = Object.entries(contexts ?? {}).map(([name, value]): [string, Context] => {
    if (name === "") throw checker.fail("contexts", "a context's name is empty");
    return [name, checker.context(child("contexts", name), value)];
  });
  return { ...(current && { "current-context": current }), contexts: Object.fromEntries(checked) };
}

/** A bare context document (SPEC.md "Project context override"). */
export function checkContext(document: unknown, source: string): Context {
  return new Checker(source).context("", document);
}
