/**
 * The patterns of `${name#pattern}` and its relatives: `*`, `?`, and `\` before a literal character. The
 * pieces between stars are searched from left to right (or from right to left), each once. The time is linear
 * in the text, and with `?` at most a bounded multiple of that.
 */

/** Characters; `undefined` stands for any character. */
type Piece = readonly (string | undefined)[];

/** Thrown where a pattern would exceed the bounds on time or memory; the message says why. */
export class PatternError extends Error {}

/** Most steps that a piece with `?` may take in a text. */
const MOST_STEPS = 1 << 24;

/** The pieces between the stars; one more than there are runs of stars. */
function piecesOf(pattern: string): Piece[] {
  const pieces: (string | undefined)[][] = [[]];
  let star = false;
  const chars = [...pattern];
  for (let i = 0; i < chars.length; i++) {
    if (chars[i] === "*") {
      if (!star) pieces.push([]);
      star = true;
      continue;
    }
    star = false;
    if (chars[i] === "?") pieces.at(-1)!.push(undefined);
    else {
      if (chars[i] === "\\" && i + 1 < chars.length) i++;
      pieces.at(-1)!.push(chars[i]);
    }
  }
  return pieces;
}

/** Searches for a piece in a text. */
interface Finder {
  readonly length: number;
  at(text: readonly string[], from: number): boolean;
  /** Position of the first match at or after `from`; -1 where there is none. */
  next(text: readonly string[], from: number): number;
}

function finder(piece: Piece): Finder {
  const { length } = piece;
  const at = (text: readonly string[], from: number) =>
    from >= 0 && from + length <= text.length &&
    piece.every((char, i) => char === undefined || char === text[from + i]);
  if (!piece.includes(undefined)) return { length, at, next: literal(piece) };
  return {
    length,
    at,
    next(text, from) {
      if (length * text.length > MOST_STEPS) {
        throw new PatternError("a pattern is too long for the value");
      }
      for (let start = from; start + length <= text.length; start++) {
        if (at(text, start)) return start;
      }
      return -1;
    },
  };
}

/** The algorithm of Knuth, Morris and Pratt: never goes back in the text. */
function literal(piece: Piece): Finder["next"] {
  const border = [0];
  for (let i = 1, k = 0; i < piece.length; i++) {
    while (k > 0 && piece[i] !== piece[k]) k = border[k - 1];
    border[i] = piece[i] === piece[k] ? ++k : 0;
  }
  return (text, from) => {
    if (piece.length === 0) return from <= text.length ? from : -1;
    for (let i = from, k = 0; i < text.length; i++) {
      while (k > 0 && text[i] !== piece[k]) k = border[k - 1];
      if (text[i] === piece[k]) k++;
      if (k === piece.length) return i - k + 1;
    }
    return -1;
  };
}

/** End of the last piece, where each piece is found after the one before; -1 where a piece is missing. */
function follow(pieces: readonly Finder[], text: readonly string[], from: number): number {
  let end = from;
  for (const piece of pieces) {
    const start = piece.next(text, end);
    if (start < 0) return -1;
    end = start + piece.length;
  }
  return end;
}

const reversed = (pieces: readonly Piece[]): Piece[] =>
  pieces.map((piece) => piece.toReversed()).reverse();

/** Length of the beginning that matches, as short or as long as possible; undefined where none matches. */
function prefix(pieces: readonly Piece[], text: readonly string[], greedy: boolean) {
  const finders = pieces.map(finder);
  if (!finders[0].at(text, 0)) return undefined;
  const end = follow(finders.slice(1), text, finders[0].length);
  if (end < 0) return undefined;
  if (!greedy || pieces.length === 1) return end;
  // The last piece at its last position. The pieces before it end there or earlier.
  const back = finder(pieces.at(-1)!.toReversed()).next(text.toReversed(), 0);
  return text.length - back;
}

/** `${value#pattern}`, or `##` where `greedy`. Throws {@linkcode PatternError}. */
export function trimPrefix(value: string, pattern: string, greedy: boolean): string {
  const text = [...value];
  const length = prefix(piecesOf(pattern), text, greedy);
  return length === undefined ? value : text.slice(length).join("");
}

/** `${value%pattern}`, or `%%` where `greedy`. Throws {@linkcode PatternError}. */
export function trimSuffix(value: string, pattern: string, greedy: boolean): string {
  const text = [...value].reverse();
  const length = prefix(reversed(piecesOf(pattern)), text, greedy);
  return length === undefined ? value : text.slice(length).reverse().join("");
}

/**
 * `${value/pattern/replacement}`, or `//` where `all`. Replaces the longest match at the first position.
 * `most`: longest result, in code units. Throws {@linkcode PatternError}.
 */
export function replacePattern(
  value: string,
  pattern: string,
  replacement: string,
  all: boolean,
  most = Infinity,
): string {
  const text = [...value];
  const pieces = piecesOf(pattern);
  if (pieces.length > 1) return replaceOnce(text, pieces, replacement) ?? value;
  const piece = finder(pieces[0]);
  const result: string[] = [];
  let at = 0;
  let length = 0;
  for (let start = piece.next(text, 0); start >= 0;) {
    for (const char of text.slice(at, start)) result.push(char);
    result.push(replacement);
    length += replacement.length;
    if (length > most) throw new PatternError("its value is too long");
    at = start + piece.length;
    if (!all) break;
    // An empty pattern matches before every character and at the end.
    start = piece.next(text, piece.length > 0 ? at : at + 1);
  }
  for (const char of text.slice(at)) result.push(char);
  return result.join("");
}

/**
 * Replaces once. With a star, the longest match reaches to the last position of the last piece, so nothing
 * after it can match again.
 */
function replaceOnce(
  text: readonly string[],
  pieces: readonly Piece[],
  replacement: string,
): string | undefined {
  const finders = pieces.map(finder);
  const start = finders[0].next(text, 0);
  if (start < 0) return undefined;
  // A later start leaves less text for the other pieces.
  if (follow(finders.slice(1), text, start + finders[0].length) < 0) return undefined;
  const back = finder(pieces.at(-1)!.toReversed()).next(text.toReversed(), 0);
  return text.slice(0, start).join("") + replacement + text.slice(text.length - back).join("");
}
