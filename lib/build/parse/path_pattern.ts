/**
 * Path patterns as in Go's `filepath.Match` (`*`, `?`, `[a-z]`, `\`), and `**` where requested. Matching
 * follows all possible ways at once, so its time is bounded by the product of the pattern's and the path's
 * length.
 */
type Token =
  | { kind: "char"; char: string }
  /** `?` and `[…]`: one character, never "/". (Go lets a class match "/", which nobody wants.) */
  | { kind: "class"; negated: boolean; ranges: [string, string][] }
  /** `*`: characters other than "/". */
  | { kind: "star" }
  /** `**` at the end: any rest of the path. */
  | { kind: "rest" }
  /** `**` before other tokens: nothing, or folders. `skip` leads past `folders`, the next token. */
  | { kind: "fork" }
  | { kind: "folders" };

export interface PathPattern {
  matches(path: string): boolean;
  /** The text of a pattern without wildcards. */
  literal?: string;
  /** Number of tokens of a pattern with wildcards: the cost of matching. */
  tokens?: number;
}

/** Most tokens of a pattern with wildcards. */
export const MOST_TOKENS = 1024;
/** Most characters of any pattern: no path is longer. */
const LONGEST = 4096;
/** Most characters whose moves are cached. */
const MOST_CHARACTERS = 512;

/**
 * Compiles a pattern. Undefined where the pattern is malformed (an open bracket, nothing after the escape),
 * longer than a path can be, or has wildcards and more than {@linkcode MOST_TOKENS} tokens.
 */
export function compilePath(pattern: string, doubleStar: boolean): PathPattern | undefined {
  if (pattern.length > LONGEST) return undefined;
  const tokens = tokenize(pattern, doubleStar);
  if (tokens === undefined) return undefined;
  if (tokens.every((token) => token.kind === "char")) {
    const literal = tokens.map((token) => token.char).join("");
    return { literal, matches: (path) => path === literal };
  }
  if (tokens.length > MOST_TOKENS) return undefined;
  const automaton = new Automaton(tokens);
  return { tokens: tokens.length, matches: (path) => automaton.matches(path) };
}

/** True where a COPY source is a pattern. */
export function hasWildcard(path: string): boolean {
  return /(?:^|[^\\])(?:\\\\)*[*?[]/.test(path);
}

function tokenize(pattern: string, doubleStar: boolean): Token[] | undefined {
  const tokens: Token[] = [];
  // Repeated stars mean the same as a single one.
  const add = (...added: Token[]) => {
    if (tokens.at(-1)?.kind !== added.at(-1)!.kind) tokens.push(...added);
  };
  const chars = [...pattern];
  for (let i = 0; i < chars.length; i++) {
    const char = chars[i];
    if (char === "*") {
      if (!doubleStar || chars[i + 1] !== "*") {
        add({ kind: "star" });
        continue;
      }
      i++;
      // To docker a leading `**.go` means "ends in .go"; `a**.go` and `**.g?` do not mean that.
      const suffix = i === 1 && /^[^/*?[\]\\]/.test(chars[2] ?? "") &&
        !chars.slice(2).some((next) => "*?[]\\".includes(next));
      if (chars[i + 1] === "/") i++;
      if (suffix || i + 1 >= chars.length) add({ kind: "rest" });
      else add({ kind: "fork" }, { kind: "folders" });
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

/** The bracket expression that starts at `start`; `end` is the position of its "]". */
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

/** Per character: the states that move on to the next state, and the states that stay. */
interface Moves {
  on: Uint32Array;
  stay: Uint32Array;
}

/**
 * Follows all ways of matching at once: bit n says that the first n tokens have matched the characters read
 * so far. A character takes a few operations per 32 tokens.
 */
class Automaton {
  readonly #tokens: readonly Token[];
  readonly #words: number;
  /** States that also lead on without a character: to the next state, and to the state after it. */
  readonly #one: Uint32Array;
  readonly #two: Uint32Array;
  readonly #moves = new Map<string, Moves>();

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
    this.#words = (tokens.length >> 5) + 1;
    this.#one = this.#where(({ kind }) => kind === "star" || kind === "rest" || kind === "fork");
    this.#two = this.#where(({ kind }) => kind === "fork");
  }

  matches(path: string): boolean {
    if (this.#words === 1) return this.#matchesShort(path);
    let states = new Uint32Array(this.#words);
    states[0] = 1;
    this.#close(states);
    for (const char of path) {
      const { on, stay } = this.#movesOf(char);
      const next = new Uint32Array(this.#words);
      let carry = 0;
      let any = 0;
      for (let i = 0; i < next.length; i++) {
        const moved = states[i] & on[i];
        next[i] = moved << 1 | carry | states[i] & stay[i];
        carry = moved >>> 31;
        any |= next[i];
      }
      if (any === 0) return false;
      this.#close(next);
      states = next;
    }
    const end = this.#tokens.length;
    return (states[end >> 5] >>> (end & 31) & 1) === 1;
  }

  /** For patterns of up to 31 tokens, as nearly all are: takes a tenth of the time. */
  #matchesShort(path: string): boolean {
    const one = this.#one[0];
    const two = this.#two[0];
    const close = (states: number): number => {
      for (let before = 0; before !== states;) {
        before = states;
        states |= (states & one) << 1 | (states & two) << 2;
      }
      return states;
    };
    let states = close(1);
    for (const char of path) {
      const { on, stay } = this.#movesOf(char);
      states = close((states & on[0]) << 1 | states & stay[0]);
      if (states === 0) return false;
    }
    return (states >>> this.#tokens.length & 1) === 1;
  }

  /** Runs of such states are short, since repeated stars are merged. */
  #close(states: Uint32Array): void {
    for (let changed = true; changed;) {
      changed = false;
      let carry = 0;
      for (let i = 0; i < states.length; i++) {
        const one = states[i] & this.#one[i];
        const two = states[i] & this.#two[i];
        const all = (states[i] | one << 1 | two << 2 | carry) >>> 0;
        carry = one >>> 31 | two >>> 30;
        if (all === states[i]) continue;
        states[i] = all;
        changed = true;
      }
    }
  }

  #movesOf(char: string): Moves {
    let moves = this.#moves.get(char);
    if (!moves) {
      const on = this.#where((token) =>
        token.kind === "char" ? token.char === char : token.kind === "class"
          ? char !== "/" &&
            token.ranges.some(([low, high]) => low <= char && char <= high) !== token.negated
          : token.kind === "folders" && char === "/"
      );
      const stay = this.#where(({ kind }) =>
        kind === "star" && char !== "/" || kind === "rest" || kind === "folders"
      );
      if (this.#moves.size >= MOST_CHARACTERS) this.#moves.clear();
      this.#moves.set(char, moves = { on, stay });
    }
    return moves;
  }

  #where(wanted: (token: Token) => boolean): Uint32Array {
    const words = new Uint32Array(this.#words);
    for (const [at, token] of this.#tokens.entries()) {
      if (wanted(token)) words[at >> 5] |= 1 << (at & 31);
    }
    return words;
  }
}
