/**
 * Path patterns as Go's `filepath.Match` has them (`*`, `?`, `[a-z]`, `\`), and `**` where it is asked for.
 * Matching simulates all ways at once: its time is the pattern's length times the path's, whatever they are.
 */
type Token =
  | { kind: "char"; char: string }
  /** `?` and `[…]`: one character, never "/" (Go lets a class match it; nobody means that). */
  | { kind: "class"; negated: boolean; ranges: [string, string][] }
  /** `*`: characters other than "/". */
  | { kind: "star" }
  /** `**` at the end: any characters, and whatever follows. */
  | { kind: "rest" }
  /** `**` before more: nothing, or folders; `skip` leads behind `folders`, which follows it. */
  | { kind: "fork" }
  | { kind: "folders" };

export interface PathPattern {
  matches(path: string): boolean;
  /** The text that a pattern without wildcards stands for. */
  literal?: string;
}

/** Compiles a pattern; undefined where it is malformed (an open bracket, nothing behind the escape). */
export function compilePath(pattern: string, doubleStar: boolean): PathPattern | undefined {
  const tokens = tokenize(pattern, doubleStar);
  if (tokens === undefined) return undefined;
  if (tokens.every((token) => token.kind === "char")) {
    const literal = tokens.map((token) => token.char).join("");
    return { literal, matches: (path) => path === literal };
  }
  return { matches: (path) => simulate(tokens, [...path]) };
}

/** `filepath.Match`: the whole path, `**` no different from `*`. A malformed pattern matches nothing. */
export function matchPath(pattern: string, path: string): boolean {
  return compilePath(pattern, false)?.matches(path) ?? false;
}

/** True where a COPY source has to be matched instead of looked up. */
export function hasWildcard(path: string): boolean {
  return /(?:^|[^\\])(?:\\\\)*[*?[]/.test(path);
}

function tokenize(pattern: string, doubleStar: boolean): Token[] | undefined {
  const tokens: Token[] = [];
  const chars = [...pattern];
  for (let i = 0; i < chars.length; i++) {
    const char = chars[i];
    if (char === "*") {
      if (!doubleStar || chars[i + 1] !== "*") {
        tokens.push({ kind: "star" });
        continue;
      }
      i++;
      // `**.go` is "ends in .go" to docker, though `a**.go` and `**.g?` are not.
      const suffix = i === 1 && /^[^/*?[\]\\]/.test(chars[2] ?? "") &&
        !chars.slice(2).some((next) => "*?[]\\".includes(next));
      if (chars[i + 1] === "/") i++;
      if (suffix || i + 1 >= chars.length) tokens.push({ kind: "rest" });
      else tokens.push({ kind: "fork" }, { kind: "folders" });
    } else if (char === "?") tokens.push({ kind: "class", negated: true, ranges: [] });
    else if (char === "[") {
      const bracket = readClass(chars, i + 1);
      if (bracket === undefined) return undefined;
      tokens.push(bracket.token);
      i = bracket.end;
    } else if (char === "\\") {
      if (++i >= chars.length) return undefined;
      tokens.push({ kind: "char", char: chars[i] });
    } else tokens.push({ kind: "char", char });
  }
  return tokens;
}

/** The bracket expression whose first character is at `start`; `end` is where its "]" stands. */
function readClass(chars: string[], start: number): { token: Token; end: number } | undefined {
  let at = start;
  const negated = chars[at] === "^";
  if (negated) at++;
  const ranges: [string, string][] = [];
  const one = (): string | undefined => {
    if (chars[at] === "-" || chars[at] === "]") return undefined;
    if (chars[at] === "\\") at++;
    return chars[at++];
  };
  while (at < chars.length && (chars[at] !== "]" || ranges.length === 0)) {
    const low = one();
    if (low === undefined) return undefined;
    let high: string | undefined = low;
    if (chars[at] === "-") {
      at++;
      high = one();
      if (high === undefined) return undefined;
    }
    ranges.push([low, high]);
  }
  if (at >= chars.length) return undefined;
  return { token: { kind: "class", negated, ranges }, end: at };
}

function simulate(tokens: Token[], path: string[]): boolean {
  let states = new Set<number>();
  const add = (set: Set<number>, state: number): void => {
    if (set.has(state)) return;
    set.add(state);
    const kind = tokens[state]?.kind;
    if (kind === "star" || kind === "rest") add(set, state + 1);
    else if (kind === "fork") {
      add(set, state + 1);
      add(set, state + 2);
    }
  };
  add(states, 0);
  for (const char of path) {
    const next = new Set<number>();
    for (const state of states) {
      const token = tokens[state];
      if (token === undefined) continue;
      if (token.kind === "char") {
        if (token.char === char) add(next, state + 1);
      } else if (token.kind === "class") {
        const inside = token.ranges.some(([low, high]) => low <= char && char <= high);
        if (char !== "/" && inside !== token.negated) add(next, state + 1);
      } else if (token.kind === "star") {
        if (char !== "/") add(next, state);
      } else if (token.kind === "rest") add(next, state);
      else if (token.kind === "folders") {
        add(next, state);
        if (char === "/") add(next, state + 1);
      }
    }
    if (next.size === 0) return false;
    states = next;
  }
  return states.has(tokens.length);
}
