/**
 * Writes a tree as YAML in the style in which docker compose writes it: two blanks an indentation, text plain
 * where that reads back as the same text, in double quotes where it would read as something else, in single
 * quotes where only its characters stand in the way, and text of several lines as a literal block.
 */
import { formatFloat, isTimestamp, resolveScalar } from "./scalar.ts";
import { Float, isList, isMapping, type Mapping, type Scalar, type Value } from "./tree.ts";

const BASE_60 = /^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$/;
/** Words that older readers take for booleans. */
const OLD_BOOLEAN = /^(y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF)$/;
const UNPRINTABLE = /[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]/u;
const LINE_BREAK = /[\r\n\x85\u2028\u2029]/;
/** A key that is longer stands on a line of its own, after "? ". */
const LONGEST_SIMPLE_KEY = 128;

interface Allowed {
  plain: boolean;
  single: boolean;
  block: boolean;
  multiline: boolean;
}

/** Which styles can hold the text; `blockIndicator` is what would end or begin something else. */
function analyse(text: string): Allowed {
  const multiline = LINE_BREAK.test(text);
  if (text === "") return { plain: true, single: true, block: false, multiline };
  const indicator =
    /^(---|\.\.\.|[#,[\]{}&*!|>'"%@`]|[-?:](?=[ \t\r\n\x85\u2028\u2029]|$))/.test(text) ||
    /:(?=[ \t\r\n\x85\u2028\u2029]|$)/.test(text) || /[ \t\r\n\x85\u2028\u2029]#/.test(text);
  const edges = /^[ \r\n\x85\u2028\u2029]|[ \r\n\x85\u2028\u2029]$/.test(text);
  const breakSpace = /[\r\n\x85\u2028\u2029] /.test(text);
  const spaceBreak = / [\r\n\x85\u2028\u2029]/.test(text);
  const tab = text.includes("\t");
  const special = UNPRINTABLE.test(text.replaceAll("\t", ""));
  return {
    multiline,
    plain: !(indicator || edges || breakSpace || spaceBreak || tab || special || multiline),
    single: !(breakSpace || spaceBreak || tab || special),
    block: !(text.endsWith(" ") || spaceBreak || special),
  };
}

const ESCAPES: Record<string, string> = {
  "\0": "\\0",
  "\x07": "\\a",
  "\b": "\\b",
  "\t": "\\t",
  "\n": "\\n",
  "\v": "\\v",
  "\f": "\\f",
  "\r": "\\r",
  "\x1b": "\\e",
  '"': '\\"',
  "\\": "\\\\",
  "\x85": "\\N",
  "\xa0": "\\_",
  "\u2028": "\\L",
  "\u2029": "\\P",
};

function escaped(character: string): string {
  const known = ESCAPES[character];
  if (known && (character !== "\xa0")) return known;
  if (!UNPRINTABLE.test(character)) return character;
  const code = character.codePointAt(0)!;
  const hex = code.toString(16).toUpperCase();
  if (code <= 0xff) return `\\x${hex.padStart(2, "0")}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

const quoted = (text: string) => `"${Array.from(text, escaped).join("")}"`;

/** Whether the text, without quotes, would be read as the same text. */
const readsAsText = (text: string) =>
  typeof resolveScalar(text) === "string" && !isTimestamp(text) &&
  !BASE_60.test(text) && !OLD_BOOLEAN.test(text);

function block(text: string, indent: string): string {
  const hint = /^[ \r\n\x85\u2028\u2029]/.test(text) ? "2" : "";
  const ends = /\n*$/.exec(text)![0].length;
  const chomp = ends === 0 ? "-" : ends > 1 || text === "\n" ? "+" : "";
  const body = text.replace(/\n$/, "").split("\n");
  return `|${hint}${chomp}\n${body.map((line) => line && indent + line).join("\n")}`;
}

function textScalar(text: string, indent: string | undefined): string {
  const allowed = analyse(text);
  if (text.includes("\n")) {
    return indent === undefined || !allowed.block ? quoted(text) : block(text, indent);
  }
  if (!readsAsText(text)) return quoted(text);
  if (allowed.plain) return text;
  return allowed.single ? `'${text.replaceAll("'", "''")}'` : quoted(text);
}

function scalar(value: Scalar, indent: string | undefined): string {
  if (value === null) return "null";
  if (value instanceof Float) return formatFloat(value.value);
  return typeof value === "string" ? textScalar(value, indent) : String(value);
}

/** The lines of a value that stands after "key:" or "-"; the first one without its indentation. */
function lines(value: Value, indent: string, after: "key" | "dash"): string {
  if (isMapping(value)) {
    if (value.size === 0) return " {}";
    const body = mappingLines(value, indent);
    return after === "dash" ? ` ${body.slice(indent.length)}` : `\n${body}`;
  }
  if (!isList(value)) return ` ${scalar(value, indent)}`;
  if (value.length === 0) return " []";
  const items = value.map((item) => `${indent}-${lines(item, `${indent}  `, "dash")}`);
  const body = items.join("\n");
  return after === "dash" ? ` ${body.slice(indent.length)}` : `\n${body}`;
}

function mappingLines(value: Mapping, indent: string): string {
  return Array.from(value, ([key, child]) => {
    const name = scalar(key, undefined);
    const rest = lines(child, `${indent}  `, "key");
    if (new TextEncoder().encode(key).length <= LONGEST_SIMPLE_KEY) {
      return `${indent}${name}:${rest}`;
    }
    return `${indent}? ${name}\n${indent}:${rest}`;
  }).join("\n");
}

/** The YAML text of a mapping, in the order of its keys, with a new line at its end. */
export function writeYaml(value: Mapping): string {
  return value.size === 0 ? "{}\n" : `${mappingLines(value, "")}\n`;
}

const isDigit = (character: string) => /\p{Nd}/u.test(character);
const isLetter = (character: string) => /\p{L}/u.test(character);

/** The number at `at` of a run of digits, and where it ends. */
function run(text: string[], at: number): [number: bigint, end: number] {
  let end = at;
  while (end < text.length && isDigit(text[end])) end++;
  return [BigInt(text.slice(at, end).join("") || "0"), end];
}

/** The order of a mapping's keys in YAML: letters after signs, runs of digits as numbers. */
export function compareKeys(left: string, right: string): number {
  const a = [...left];
  const b = [...right];
  let digits = false;
  for (let at = 0; at < a.length && at < b.length; at++) {
    if (a[at] === b[at]) {
      digits = isDigit(a[at]);
      continue;
    }
    const [al, bl] = [isLetter(a[at]), isLetter(b[at])];
    if (al && bl) return a[at] < b[at] ? -1 : 1;
    if (al || bl) return (digits ? al : bl) ? -1 : 1;
    return compareSigns(a, b, at);
  }
  return a.length - b.length;
}

/** Where neither is a letter: the numbers that begin there, with the digits before them. */
function compareSigns(a: string[], b: string[], at: number): number {
  let lead = 0n;
  if (a[at] === "0" || b[at] === "0") {
    for (let j = at - 1; j >= 0 && isDigit(a[j]); j--) if (a[j] !== "0") lead = 1n;
  }
  const [an, ai] = run(a, at);
  const [bn, bi] = run(b, at);
  const left = an + lead * 10n ** BigInt(ai - at);
  const right = bn + lead * 10n ** BigInt(bi - at);
  if (left !== right) return left < right ? -1 : 1;
  if (ai !== bi) return ai - bi;
  return a[at] < b[at] ? -1 : 1;
}
