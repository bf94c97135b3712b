/** Documents that an operator writes in YAML or JSON. They are read strictly: a misread rule is a security hole. */
import { fileTrouble, SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";

/** Longest document; no real policy is as long. */
const MAX_CHARACTERS = 1024 * 1024;

export type Fields = Record<string, unknown>;

/** A place in a document. Errors name the document and the place. */
export class DocumentPath {
  constructor(readonly document: string, readonly path = "") {}

  at(member: string | number): DocumentPath {
    const { path } = this;
    const step = typeof member === "number" ? `[${member}]` : path === "" ? member : `.${member}`;
    return new DocumentPath(this.document, path + step);
  }

  wrong(what: string, help?: string): SvcError {
    const { path } = this;
    return new SvcError(
      "config_invalid",
      `Cannot read ${this.document}: ${path === "" ? "" : `${path}: `}${what}`,
      { help: help ?? "correct the document; the reference describes it" },
    );
  }

  /** The members of an object; unknown ones are errors. */
  object(value: unknown, known?: readonly string[]): Fields {
    if (value === null || typeof value !== "object" || Array.isArray(value)) {
      throw this.wrong(`expected an object, got ${kind(value)}`);
    }
    for (const name of known ? Object.keys(value) : []) {
      if (known!.includes(name)) continue;
      throw this.at(name).wrong(`unknown field${suggestion(name, known!)}`);
    }
    return value as Fields;
  }

  /** A list with at least one entry. */
  list(value: unknown): unknown[] {
    if (Array.isArray(value) && value.length > 0) return value;
    throw this.wrong(`expected a list with at least one entry, got ${kind(value)}`);
  }

  text(value: unknown): string {
    if (typeof value === "string" && value !== "") return value;
    throw this.wrong(`expected a text, got ${kind(value)}`);
  }

  /** A text, or a list of them. */
  texts(value: unknown): string[] {
    if (typeof value === "string") return [this.text(value)];
    return this.list(value).map((item, n) => this.at(n).text(item));
  }

  /** A word of a closed set. */
  word<T extends string>(value: unknown, words: readonly T[]): T {
    const text = this.text(value);
    const word = words.find((known) => known === text);
    if (word) return word;
    throw this.wrong(
      `${JSON.stringify(text)} is not one of ${words.join(", ")}${suggestion(text, words)}`,
    );
  }
}

function kind(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return value.length === 0 ? "an empty list" : "a list";
  if (value === "") return "an empty text";
  return typeof value === "object" ? "an object" : JSON.stringify(value);
}

/** Parses a whole document. Throws `config_invalid` naming `document`. */
export async function parseDocument(text: string, document: string): Promise<unknown> {
  const place = new DocumentPath(document);
  if (text.length > MAX_CHARACTERS) throw place.wrong("it is larger than 1 MiB");
  const yaml = await import("yaml");
  try {
    // JSON is YAML, too. A duplicate key is an error in both.
    const parsed = yaml.parseDocument(text, {
      uniqueKeys: true,
      prettyErrors: true,
      stringKeys: true,
    });
    const [fault] = [...parsed.errors, ...parsed.warnings];
    if (fault) throw fault;
    return parsed.toJS({ maxAliasCount: 20 });
  } catch (cause) {
    throw place.wrong(`it is neither YAML nor JSON: ${(cause as Error).message.split("\n")[0]}`);
  }
}

/** The text of a file, or `config_invalid` naming the variable that names it. */
export async function readConfigured(path: string, variable: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (cause) {
    throw new SvcError(
      "config_invalid",
      `Cannot read ${variable}: ${path}: ${fileTrouble(cause)}`,
      { cause, help: "name a file that the server may read" },
    );
  }
}
