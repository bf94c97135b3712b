/** Finds the `<<NAME` words of an instruction. */
import { expand, scopeOf } from "./expand.ts";

export interface HeredocToken {
  name: string;
  expand: boolean;
  stripTabs: boolean;
  fd: number;
  /** Offset of the word in the text. */
  start: number;
  end: number;
}

/**
 * All heredocs of a line, in order. Only a whole word counts: `cat<<EOF` and `<<<word` are left to the shell.
 * White space may be between `<<` and the name. A line with unmatched quotes has no heredocs.
 */
export function findHeredocs(text: string): HeredocToken[] {
  const tokens: HeredocToken[] = [];
  for (const { word, start, end } of shellWords(text)) {
    const match = /^(\d*)<<(-?)\s*([^<\s][^<]*)$/.exec(word);
    if (!match) continue;
    const name = unquote(match[3]);
    if (name === undefined || name === "") continue;
    tokens.push({
      name,
      expand: !/['"]/.test(match[3].replace(/\\./g, "")),
      stripTabs: match[2] === "-",
      fd: Math.min(Number(match[1]), 0x7fffffff),
      start,
      end,
    });
  }
  return tokens;
}

/** Removes quotes from a terminator. Its variables are not expanded, as in a shell. */
function unquote(word: string): string | undefined {
  if (word.includes("$")) return /['"\\]/.test(word) ? undefined : word;
  return expand(word, scopeOf({})).value;
}

function shellWords(text: string): { word: string; start: number; end: number }[] {
  const words: { word: string; start: number; end: number }[] = [];
  let start = -1;
  const close = (end: number) => {
    if (start !== -1) words.push({ word: text.slice(start, end), start, end });
    start = -1;
  };
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (/\s/.test(char)) {
      close(i);
      continue;
    }
    if (start === -1) start = i;
    if (char === "\\") i++;
    else if (char === "'" || char === '"') {
      const end = closing(text, i);
      if (end === -1) return [];
      i = end;
    } else if (char === "<" && text[i + 1] === "<") {
      i++;
      while (/[ \t\r]/.test(text[i + 1] ?? "")) i++;
    }
  }
  close(text.length);
  return words;
}

function closing(text: string, at: number): number {
  const quote = text[at];
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === quote) return i;
    if (text[i] === "\\" && quote === '"') i++;
  }
  return -1;
}
