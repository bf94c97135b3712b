/** Reads .env files: `NAME=value` lines with quotes, escapes, comments and variables. */
import { SvcError } from "../base/errors.ts";
import { Interpolator, type Lookup, TemplateError } from "./interpolate.ts";

const BLANK = /[\t\v\f\r \x85\xa0]/;
const ESCAPE = /\\(?:[abcfnrtv$"\\]|0\d{0,3})/g;
const ESCAPED: Record<string, string> = {
  "\\a": "\x07",
  "\\b": "\b",
  "\\f": "\f",
  "\\n": "\n",
  "\\r": "\r",
  "\\t": "\t",
  "\\v": "\v",
  "\\\\": "\\",
  '\\"': '"',
  // The interpolation that follows makes one dollar sign of it.
  "\\$": "$$",
};

class DotenvReader {
  #line = 1;
  #at = 0;

  constructor(
    readonly text: string,
    readonly file: string,
    readonly values: Map<string, string>,
    readonly interpolator: Interpolator,
  ) {}

  #invalid(what: string, line = this.#line, help?: string): SvcError {
    return new SvcError("compose_invalid", `Cannot read ${this.file}:${line}: ${what}`, {
      ...(help && { help }),
    });
  }

  read(): void {
    while (this.#toStatement()) {
      const line = this.#line;
      const { name, inherited } = this.#name();
      if (name.includes(" ")) throw this.#invalid(`a name cannot have a blank: ${name}`, line);
      if (inherited) {
        const value = this.interpolator.lookup(name);
        if (value !== undefined) this.values.set(name, value);
        continue;
      }
      this.values.set(name, this.#value());
    }
  }

  /** Moves over blanks, lines without content and comments; false at the end. */
  #toStatement(): boolean {
    for (;;) {
      while (this.#at < this.text.length && /\s|\x85/.test(this.text[this.#at])) {
        if (this.text[this.#at++] === "\n") this.#line++;
      }
      if (this.#at >= this.text.length) return false;
      if (this.text[this.#at] !== "#") return true;
      const end = this.text.indexOf("\n", this.#at);
      if (end < 0) return false;
      this.#at = end;
    }
  }

  #name(): { name: string; inherited: boolean } {
    const exported = /export[^\S\n]+/y;
    exported.lastIndex = this.#at;
    if (exported.test(this.text)) this.#at = exported.lastIndex;
    const start = this.#at;
    let end = start;
    while (end < this.text.length && !/[=:\n]/.test(this.text[end])) {
      const character = this.text[end];
      if (!BLANK.test(character) && !/[\p{L}\p{N}_.[\]-]/u.test(character)) {
        const shown = this.text.slice(start).split("\n", 1)[0];
        throw this.#invalid(
          `unexpected ${JSON.stringify(character)} in the name of a variable: ${shown}`,
        );
      }
      end++;
    }
    const inherited = end >= this.text.length || this.text[end] === "\n";
    const name = this.text.slice(start, end).trimEnd();
    // A new line is left for the next statement to count.
    this.#at = inherited ? end : end + 1;
    while (this.#at < this.text.length && BLANK.test(this.text[this.#at])) this.#at++;
    return { name, inherited };
  }

  #value(): string {
    const quote = this.text[this.#at];
    return quote === '"' || quote === "'" ? this.#quoted(quote) : this.#plain();
  }

  #plain(): string {
    const newline = this.text.indexOf("\n", this.#at);
    const end = newline < 0 ? this.text.length : newline;
    const value = this.text.slice(this.#at, end).split(" #", 1)[0].trimEnd();
    this.#at = end;
    return this.#interpolate(value, this.#line);
  }

  #quoted(quote: string): string {
    const line = this.#line;
    const characters: string[] = [];
    let escaping = false;
    for (let at = this.#at + 1; at < this.text.length; at++) {
      const character = this.text[at];
      if (character === "\n") this.#line++;
      if (character === quote && !escaping) {
        this.#at = at + 1;
        const value = characters.join("");
        return quote === "'" ? value : this.#interpolate(value.replace(ESCAPE, unescape), line);
      }
      if (character === "\\" && !escaping) {
        escaping = true;
        continue;
      }
      if (escaping && character !== quote) characters.push("\\");
      escaping = false;
      characters.push(character);
    }
    throw this.#invalid(`the quote is not closed`, line);
  }

  #interpolate(value: string, line: number): string {
    try {
      return this.interpolator.substitute(value);
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error;
      throw this.#invalid(error.message, line, error.help);
    }
  }
}

function unescape(escape: string): string {
  const known = ESCAPED[escape];
  if (known !== undefined) return known;
  if (/^\\0[0-7]{3}$/.test(escape)) return String.fromCharCode(parseInt(escape.slice(2), 8));
  return escape;
}

/**
 * Reads the text of a .env file into `values`. `lookup` comes before what the file itself says, where a value
 * names variables. Throws `compose_invalid` with file and line.
 */
export function readDotenv(
  text: string,
  file: string,
  values: Map<string, string>,
  lookup: Lookup,
  unset?: (name: string) => void,
): void {
  const interpolator = new Interpolator((name) => lookup(name) ?? values.get(name), unset);
  new DotenvReader(text.replace(/^\ufeff/, ""), file, values, interpolator).read();
}

/** The format `raw`: what stands after the first `=` of a line is the value, whatever it is. */
export function readRawEnv(
  text: string,
  file: string,
  values: Map<string, string>,
  lookup: Lookup,
): void {
  for (const [index, whole] of text.replace(/^\ufeff/, "").split("\n").entries()) {
    const line = whole.replace(/\r$/, "").trimStart();
    if (line === "" || line.startsWith("#")) continue;
    const equals = line.indexOf("=");
    const name = equals < 0 ? line : line.slice(0, equals);
    if (name === "" || /\s/.test(name)) {
      throw new SvcError(
        "compose_invalid",
        `Cannot read ${file}:${index + 1}: ${JSON.stringify(name)} is no name of a variable`,
      );
    }
    const value = equals < 0 ? lookup(name) : line.slice(equals + 1);
    if (value !== undefined) values.set(name, value);
  }
}
