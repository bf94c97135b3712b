/**
 * The patterns of `${name#pattern}` and its relatives: `*`, `?` and `\` before a character that is meant
 * literally. Matching is a simulation over positions, so that no pattern takes more than its length times
 * the text's.
 */
type Token = { kind: "char"; char: string } | { kind: "any" } | { kind: "star" };

function tokens(pattern: string): Token[] {
  const result: Token[] = [];
  const chars = [...pattern];
  for (let i = 0; i < chars.length; i++) {
    if (chars[i] === "*") {
      if (result.at(-1)?.kind !== "star") result.push({ kind: "star" });
    } else if (chars[i] === "?") result.push({ kind: "any" });
    else {
      if (chars[i] === "\\" && i + 1 < chars.length) i++;
      result.push({ kind: "char", char: chars[i] });
    }
  }
  return result;
}

/** Lengths of the shortest and the longest match that starts at `from`; undefined where there is none. */
function matchAt(
  pattern: Token[],
  text: string[],
  from: number,
): { shortest: number; longest: number } | undefined {
  let states = new Set<number>();
  const add = (set: Set<number>, state: number) => {
    set.add(state);
    if (pattern[state]?.kind === "star") set.add(state + 1);
  };
  add(states, 0);
  let shortest: number | undefined;
  let longest = 0;
  for (let at = from;; at++) {
    if (states.has(pattern.length)) {
      shortest ??= at - from;
      longest = at - from;
    }
    if (at >= text.length || states.size === 0) break;
    const next = new Set<number>();
    for (const state of states) {
      const token = pattern[state];
      if (token === undefined) continue;
      if (token.kind === "star") add(next, state);
      else if (token.kind === "any" || token.char === text[at]) add(next, state + 1);
    }
    states = next;
  }
  return shortest === undefined ? undefined : { shortest, longest };
}

/** `${value#pattern}`, or `##` where `greedy`. */
export function trimPrefix(value: string, pattern: string, greedy: boolean): string {
  const text = [...value];
  const match = matchAt(tokens(pattern), text, 0);
  return match ? text.slice(greedy ? match.longest : match.shortest).join("") : value;
}

/** `${value%pattern}`, or `%%` where `greedy`. */
export function trimSuffix(value: string, pattern: string, greedy: boolean): string {
  const text = [...value].reverse();
  const match = matchAt(tokens(pattern).reverse(), text, 0);
  return match ? text.slice(greedy ? match.longest : match.shortest).reverse().join("") : value;
}

/** `${value/pattern/replacement}`, or `//` where `all`. The longest match at the first place counts. */
export function replacePattern(
  value: string,
  pattern: string,
  replacement: string,
  all: boolean,
): string {
  const compiled = tokens(pattern);
  const text = [...value];
  let result = "";
  let at = 0;
  let afterMatch = false;
  while (at <= text.length) {
    const length = matchAt(compiled, text, at)?.longest;
    // An empty match right behind another match would put the replacement there twice.
    if (length !== undefined && (length > 0 || !afterMatch)) {
      result += replacement;
      at += length;
      if (!all) return result + text.slice(at).join("");
      afterMatch = length > 0;
      if (length > 0) continue;
    }
    afterMatch = false;
    result += text[at] ?? "";
    at++;
  }
  return result;
}
