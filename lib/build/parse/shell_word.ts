/** Reads a word into parts: literal text and variables with their modifiers, nested as deep as written. */

export type Part =
  /** `quoted` text is never split into words. */
  | { kind: "text"; text: string; quoted: boolean }
  | { kind: "variable"; name: string; quoted: boolean; modifier?: Modifier };

export type Modifier =
  | { kind: "default" | "alternative" | "required"; emptyIsUnset: boolean; word: Part[] }
  | { kind: "prefix" | "suffix"; greedy: boolean; pattern: Part[] }
  | { kind: "replace"; all: boolean; pattern: Part[]; replacement: Part[] };

/** A syntax error in a word; the caller adds the line. */
export class WordSyntaxError extends Error {}

export interface WordSyntax {
  escape: string;
  /** Quotes are ordinary characters. */
  rawQuotes: boolean;
}

const MAX_DEPTH = 64;
const LETTER = /[\p{L}\p{Nd}_]/u;
const DIGIT = /\p{Nd}/u;
const SPECIAL = "@*#?-$!0";

/** Longest word: a longer one is a mistake, and every character costs memory. */
const MAX_LENGTH = 1 << 20;

/** Throws {@linkcode WordSyntaxError}. */
export function parseWord(source: string, syntax: WordSyntax): Part[] {
  if (source.length > MAX_LENGTH) throw new WordSyntaxError("it is longer than 1 MiB");
  return new WordParser(source, syntax).parts(undefined, false, false);
}

function pushText(parts: Part[], text: string, quoted: boolean): void {
  const last = parts.at(-1);
  if (last?.kind === "text" && last.quoted === quoted) last.text += text;
  else if (text !== "") parts.push({ kind: "text", text, quoted });
}

class WordParser {
  private readonly chars: string[];
  private readonly escape: string;
  private readonly rawQuotes: boolean;
  private at = 0;
  private depth = 0;

  constructor(source: string, syntax: WordSyntax) {
    this.chars = [...source];
    this.escape = syntax.escape;
    this.rawQuotes = syntax.rawQuotes;
  }

  /** Reads parts up to `stop`, which is consumed. `keepEscapes`: the text will become a pattern. */
  parts(stop: string | undefined, keepEscapes: boolean, quoted: boolean): Part[] {
    if (++this.depth > MAX_DEPTH) throw new WordSyntaxError("variables are nested too deeply");
    const parts: Part[] = [];
    while (this.at < this.chars.length) {
      const char = this.chars[this.at];
      if (char === stop) {
        this.at++;
        this.depth--;
        return parts;
      }
      if (char === "$") parts.push(this.dollar(quoted));
      else if (char === "'" && !this.rawQuotes) pushText(parts, this.singleQuoted(), true);
      else if (char === '"' && !this.rawQuotes) this.doubleQuoted(parts, keepEscapes);
      else if (char === this.escape) {
        this.at++;
        const next = this.chars[this.at++];
        pushText(parts, (keepEscapes ? char : "") + (next ?? ""), true);
      } else {
        this.at++;
        pushText(parts, char, quoted);
      }
    }
    if (stop !== undefined) throw new WordSyntaxError(`a ${stop} is missing behind \${`);
    this.depth--;
    return parts;
  }

  private singleQuoted(): string {
    const end = this.chars.indexOf("'", this.at + 1);
    if (end === -1) throw new WordSyntaxError("a single quote is not closed");
    const text = this.chars.slice(this.at + 1, end).join("");
    this.at = end + 1;
    return text;
  }

  private doubleQuoted(parts: Part[], keepEscapes: boolean): void {
    const push = (text: string) => pushText(parts, text, true);
    this.at++;
    while (this.at < this.chars.length) {
      const char = this.chars[this.at];
      if (char === '"') {
        this.at++;
        return;
      }
      if (char === "$") {
        parts.push(this.dollar(true));
        continue;
      }
      this.at++;
      if (char !== this.escape) {
        push(char);
        continue;
      }
      if (keepEscapes) push(char);
      const next = this.chars[this.at];
      if (next === undefined) break;
      // Within double quotes only these characters can be escaped; before others the escape is literal.
      if (next === '"' || next === "$" || next === this.escape) {
        this.at++;
        push(next);
      } else push(char);
    }
    throw new WordSyntaxError("a double quote is not closed");
  }

  private dollar(quoted: boolean): Part {
    this.at++;
    if (this.chars[this.at] !== "{") {
      const name = this.name();
      return name === "" ? { kind: "text", text: "$", quoted } : { kind: "variable", name, quoted };
    }
    this.at++;
    if (this.at >= this.chars.length) throw new WordSyntaxError("a } is missing behind ${");
    const name = this.name();
    const char = this.chars[this.at];
    if (name === "") {
      throw new WordSyntaxError(`\${${char ?? ""} does not start with a variable's name`);
    }
    if (char === undefined) throw new WordSyntaxError(`a } is missing behind \${${name}`);
    this.at++;
    if (char === "}") return { kind: "variable", name, quoted };
    return { kind: "variable", name, quoted, modifier: this.modifier(name, char, quoted) };
  }

  private modifier(name: string, first: string, quoted: boolean): Modifier {
    if (first === "#" || first === "%") {
      const greedy = this.chars[this.at] === first;
      if (greedy) this.at++;
      const kind = first === "#" ? "prefix" : "suffix";
      return { kind, greedy, pattern: this.parts("}", true, quoted) };
    }
    if (first === "/") {
      const all = this.chars[this.at] === "/";
      if (all) this.at++;
      const pattern = this.parts("/", true, quoted);
      return { kind: "replace", all, pattern, replacement: this.parts("}", true, quoted) };
    }
    const emptyIsUnset = first === ":";
    const char = emptyIsUnset ? this.chars[this.at++] : first;
    const kind = char === "-"
      ? "default"
      : char === "+"
      ? "alternative"
      : char === "?"
      ? "required"
      : undefined;
    if (kind === undefined) {
      const shown = emptyIsUnset ? `:${char ?? ""}` : char;
      throw new WordSyntaxError(
        `\${${name}${shown} is not a modifier; there are - + ? :- :+ :? # ## % %% / and //`,
      );
    }
    return { kind, emptyIsUnset, word: this.parts("}", false, quoted) };
  }

  /** A name, a positional or a special parameter; empty where none starts here. */
  private name(): string {
    const first = this.chars[this.at];
    if (first === undefined) return "";
    const start = this.at;
    if (DIGIT.test(first)) {
      while (this.at < this.chars.length && DIGIT.test(this.chars[this.at])) this.at++;
    } else if (SPECIAL.includes(first)) this.at++;
    else while (this.at < this.chars.length && LETTER.test(this.chars[this.at])) this.at++;
    return this.chars.slice(start, this.at).join("");
  }
}
