/**
 * Reads the YAML that Compose files mostly are, many times faster than a parser for all of YAML: block mappings and
 * lists, scalars of one line, `|` texts, flow collections, anchors and aliases, comments. Whatever it does not know
 * for certain, errors included, it leaves to that parser, so that both give the same nodes for every file that this
 * one reads.
 */

/** Nodes as reader.ts takes them; `range` begins with the line, from 1. */
export interface Node {
  kind: "map" | "list" | "alias" | "scalar";
  range: [number];
  anchor?: string;
  /** Of a mapping: pairs of key and value. Of a list: values. */
  items?: { key: Node; value: Node | null }[] | Node[];
  /** The name that an alias refers to; the text of a scalar. */
  source?: string;
  value?: string;
  /** "PLAIN", or another word for text that is text whatever it looks like. */
  type?: string;
}

/** Thrown where the text is left to the other parser. */
const LEFT = Symbol("left to the parser of all YAML");

const leave = (): never => {
  throw LEFT;
};

/** Characters whose meaning is certain. */
const SIMPLE = /^[\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]*$/;
/** A key, its colon, and the blanks after it. */
const KEY =
  /(?:"([^"\\\n]*)"|'([^'\n]*)'|(<<|[A-Za-z0-9_./$][\w./$@+-]*(?: [\w./$@+-]+)*))[ ]*:(?:[ ]+|$)/y;
/** What no text without quotes begins with. */
const INDICATOR = /^(?:[,\[\]{}#&*!|>'"%@`]|[-?:](?:[ ]|$))/;
const ESCAPES: Record<string, string> = { "\\\\": "\\", '\\"': '"', "\\n": "\n", "\\t": "\t" };
const DEEPEST = 60;

const scalar = (line: number, source: string, type = "PLAIN"): Node => ({
  ...{ kind: "scalar", range: [line], source, value: source, type },
});

class Quick {
  readonly #lines: string[];
  /** Index of the line at hand, and the column from which it counts. */
  #at = 0;
  #column = 0;
  #deep = 0;

  constructor(text: string) {
    this.#lines = text.split("\n");
    if (this.#lines[0] === "---") this.#at = 1;
    this.#skip();
  }

  document(): Node {
    const root = this.#mapping(0);
    return this.#at < this.#lines.length ? leave() : root;
  }

  /** On to the next line that says something. */
  #skip(): void {
    while (this.#at < this.#lines.length && /^ *(#|$)/.test(this.#lines[this.#at])) this.#at++;
    this.#column = this.#indent;
  }

  #next(): void {
    this.#at++;
    this.#skip();
  }

  /** -1 at the end. */
  get #indent(): number {
    const line = this.#lines[this.#at];
    return line === undefined ? -1 : line.length - line.trimStart().length;
  }

  get #isItem(): boolean {
    return /^-( |$)/.test(this.#lines[this.#at]?.slice(this.#column) ?? "");
  }

  #mapping(indent: number): Node {
    if (++this.#deep > DEEPEST) leave();
    const items: { key: Node; value: Node | null }[] = [];
    const line = this.#at + 1;
    while (this.#column === indent && this.#at < this.#lines.length && !this.#isItem) {
      const text = this.#lines[this.#at];
      if (indent === 0 && /^(---|\.\.\.|%)/.test(text)) leave();
      KEY.lastIndex = indent;
      const found = KEY.exec(text) ?? leave();
      const [, double, single, plain] = found!;
      const key = plain === undefined
        ? scalar(this.#at + 1, double ?? single, "QUOTED")
        : scalar(this.#at + 1, plain);
      items.push({ key, value: this.#value(KEY.lastIndex, indent) });
    }
    if (this.#column > indent || items.length === 0) leave();
    this.#deep--;
    return { kind: "map", range: [line], items };
  }

  #list(indent: number): Node {
    if (++this.#deep > DEEPEST) leave();
    const items: Node[] = [];
    const line = this.#at + 1;
    while (this.#column === indent && this.#isItem) {
      const text = this.#lines[this.#at];
      const start = indent + 1 + /^ */.exec(text.slice(indent + 1))![0].length;
      if (start >= text.length || /^(#|&|-( |$))/.test(text.slice(start))) leave();
      KEY.lastIndex = start;
      if (KEY.test(text)) {
        this.#column = start;
        items.push(this.#mapping(start));
      } else items.push(this.#value(start, indent));
    }
    if (this.#column > indent) leave();
    this.#deep--;
    return { kind: "list", range: [line], items };
  }

  /** The value that begins at this column, of something at this indent. */
  #value(start: number, indent: number): Node {
    const text = this.#lines[this.#at];
    const [anchored, anchor] = /^&([\w-]+)(?: +|$)/.exec(text.slice(start)) ?? ["", undefined];
    start += anchored.length;
    const rest = text.slice(start);
    const node = rest === "" || rest.startsWith("#")
      ? this.#below(start, indent, anchor !== undefined)
      : this.#inline(rest, start, indent);
    if (anchor === undefined) return node;
    return node.kind === "alias" ? leave() : { ...node, anchor };
  }

  /** What stands on the lines below a key, or nothing. */
  #below(start: number, indent: number, anchored: boolean): Node {
    const line = this.#at + 1;
    // A comment needs a blank before it.
    if (start < this.#lines[this.#at].length && this.#lines[this.#at][start - 1] !== " ") leave();
    this.#next();
    if (this.#column > indent) {
      return this.#isItem ? this.#list(this.#column) : this.#mapping(this.#column);
    }
    if (this.#column === indent && this.#isItem) return this.#list(indent);
    return anchored ? leave() : scalar(line, "");
  }

  #inline(rest: string, start: number, indent: number): Node {
    const line = this.#at + 1;
    const first = rest[0];
    if (first === "[" || first === "{") return this.#flow(start, indent);
    if (first === "|") return this.#literal(rest, indent);
    if (first === "*") {
      const [, name] = /^\*([\w-]+) *(?: #.*)?$/.exec(rest) ?? [];
      this.#next();
      return name === undefined ? leave() : { kind: "alias", range: [line], source: name };
    }
    const [text, end] = first === '"' || first === "'"
      ? quoted(rest)
      : [plainText(rest), rest.length];
    if (!/^ *(?: #.*)?$/.test(rest.slice(end))) leave();
    this.#next();
    // It goes on below.
    if (this.#column > indent) leave();
    return scalar(line, text, first === '"' || first === "'" ? "QUOTED" : "PLAIN");
  }

  /** A `|` text. */
  #literal(rest: string, indent: number): Node {
    const line = this.#at + 1;
    const [, keep] = /^\|([-+]?) *(?: #.*)?$/.exec(rest) ?? leave() as never;
    if (keep === "+") leave();
    const parts: string[] = [];
    let depth: number | undefined;
    for (this.#at++; this.#at < this.#lines.length; this.#at++) {
      const text = this.#lines[this.#at];
      const own = this.#indent;
      if (text.trim() === "") {
        if (own > (depth ?? indent + 1)) leave();
        parts.push("");
        continue;
      }
      if (own <= indent) break;
      depth ??= own;
      if (own < depth) leave();
      parts.push(text.slice(depth));
    }
    if (depth === undefined) leave();
    this.#skip();
    if (this.#column > indent) leave();
    const text = parts.join("\n").replace(/\n+$/, "");
    return scalar(line, keep === "-" ? text : `${text}\n`, "BLOCK_LITERAL");
  }

  /** A flow collection, which may go on below, deeper than `indent`. */
  #flow(start: number, indent: number): Node {
    const flow = new Flow(this.#lines, this.#at, start, indent);
    const node = flow.node();
    if (!/^ *(?: #.*)?$/.test(this.#lines[flow.line].slice(flow.column))) leave();
    this.#at = flow.line;
    this.#next();
    if (this.#column > indent) leave();
    return node;
  }
}

/** The text in quotes at the beginning, and where they end. */
function quoted(rest: string): [text: string, end: number] {
  const [whole] = /^(?:"(?:[^"\\]|\\[\\"nt])*"|'(?:[^']|'')*')/.exec(rest) ?? leave() as never;
  const inside = whole.slice(1, -1);
  const text = whole[0] === '"'
    ? inside.replace(/\\./g, (escape) => ESCAPES[escape])
    : inside.replaceAll("''", "'");
  return [text, whole.length];
}

/** A text without quotes that goes to the end of its line, or to a comment. */
function plainText(rest: string): string {
  const text = rest.replace(/ +#.*$/, "").trimEnd();
  return INDICATOR.test(text) || /:( |$)/.test(text) || / #/.test(text) ? leave() : text;
}

class Flow {
  line: number;
  column: number;
  readonly #lines: readonly string[];
  readonly #indent: number;
  #deep = 0;

  constructor(lines: readonly string[], line: number, column: number, indent: number) {
    this.#lines = lines;
    this.line = line;
    this.column = column;
    this.#indent = indent;
  }

  get #rest(): string {
    return this.#lines[this.line].slice(this.column);
  }

  /** Over blanks and ends of lines, to what comes next. */
  #peek(): string {
    for (;;) {
      const blanks = /^ */.exec(this.#rest)![0].length;
      this.column += blanks;
      const next = this.#lines[this.line][this.column];
      if (next === "#") leave();
      if (next !== undefined) return next;
      this.column = 0;
      if (++this.line >= this.#lines.length) leave();
      const text = this.#lines[this.line];
      const own = text.length - text.trimStart().length;
      if (text.trim() === "" || own <= this.#indent || /^(---|\.\.\.)/.test(text)) leave();
    }
  }

  node(): Node {
    if (++this.#deep > DEEPEST) leave();
    const first = this.#peek();
    const node = first === "[" ? this.#list() : first === "{" ? this.#map() : this.#scalar();
    this.#deep--;
    return node;
  }

  /** Items up to the closing bracket. */
  #until(close: string, item: () => void): void {
    this.column++;
    while (this.#peek() !== close) {
      item();
      const next = this.#peek();
      if (next === ",") this.column++;
      else if (next !== close) leave();
    }
    this.column++;
  }

  #list(): Node {
    const range: [number] = [this.line + 1];
    const items: Node[] = [];
    this.#until("]", () => items.push(this.node()));
    return { kind: "list", range, items };
  }

  #map(): Node {
    const range: [number] = [this.line + 1];
    const items: { key: Node; value: Node | null }[] = [];
    this.#until("}", () => {
      KEY.lastIndex = this.column;
      const [, double, single, plain] = KEY.exec(this.#lines[this.line]) ?? leave() as never;
      const key = plain === undefined
        ? scalar(this.line + 1, double ?? single, "QUOTED")
        : scalar(this.line + 1, plain);
      this.column = KEY.lastIndex;
      if (/[,}]/.test(this.#peek())) leave();
      items.push({ key, value: this.node() });
    });
    return { kind: "map", range, items };
  }

  #scalar(): Node {
    const line = this.line + 1;
    const rest = this.#rest;
    if (rest[0] === "*") {
      const [whole, name] = /^\*([\w-]+)(?= *[,\]}]| *$)/.exec(rest) ?? leave() as never;
      this.column += whole.length;
      return { kind: "alias", range: [line], source: name };
    }
    if (rest[0] === '"' || rest[0] === "'") {
      const [text, end] = quoted(rest);
      this.column += end;
      return scalar(line, text, "QUOTED");
    }
    const [whole] = /^[^,[\]{}]+/.exec(rest) ?? leave() as never;
    const text = whole.trimEnd();
    if (INDICATOR.test(text) || /:( |$)| #/.test(text) || /^[-?:]/.test(text)) leave();
    this.column += whole.length;
    // It goes on below, or ends in what a reader of all YAML has to judge.
    if (!/[,\]}]/.test(this.#peek())) leave();
    return scalar(line, text);
  }
}

/** The root of a text that is certain; undefined: it is for the parser of all YAML. */
export function readQuick(text: string): Node | undefined {
  if (!SIMPLE.test(text)) return undefined;
  try {
    return new Quick(text).document();
  } catch (error) {
    if (error === LEFT) return undefined;
    throw error;
  }
}
