/** Splits an instruction's arguments. Quotes and escapes are kept; expansion removes them. */

/** Words at white space; quotes hold a word together (ENV, LABEL, ARG). */
export function quotedWords(text: string, escape: string): string[] {
  const words: string[] = [];
  let word = "";
  let quote = "";
  let inWord = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (quote === "" && /\s/.test(char)) {
      if (inWord) words.push(word);
      word = "";
      inWord = false;
      continue;
    }
    inWord = true;
    if (char === escape && quote !== "'") {
      // An escape at the very end is dropped.
      if (i + 1 < text.length) word += char + text[++i];
      continue;
    }
    if (quote === "" && (char === "'" || char === '"')) quote = char;
    else if (char === quote) quote = "";
    word += char;
  }
  if (inWord && word !== "") words.push(word);
  return words;
}

/** Words at white space, without regard to quotes: paths, ports, FROM. */
export function plainWords(text: string): string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}

/** A `["a", "b"]` list, or the reason why the text is none. */
export type JsonForm =
  | { kind: "array"; values: string[] }
  /** An array, but not of strings alone. */
  | { kind: "mixed" }
  /** Not JSON: the shell form. */
  | { kind: "none" };

export function jsonForm(text: string): JsonForm {
  if (!text.trimStart().startsWith("[")) return { kind: "none" };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { kind: "none" };
  }
  if (!Array.isArray(value)) return { kind: "none" };
  return value.every((item) => typeof item === "string")
    ? { kind: "array", values: value }
    : { kind: "mixed" };
}

/** The first word and the rest, both trimmed. */
export function firstWord(text: string): [string, string] {
  const trimmed = text.trim();
  const space = trimmed.search(/\s/);
  return space === -1 ? [trimmed, ""] : [trimmed.slice(0, space), trimmed.slice(space).trim()];
}
