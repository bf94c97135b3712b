/** Splits a Dockerfile into lines: comments, continuation lines and bodies of heredocs. */
import type { HeredocToken } from "./heredoc.ts";
import type { Heredoc } from "./ast.ts";

/** One instruction's text, its continuation lines joined. */
export interface LogicalLine {
  /** Joined as docker does: white space at the joints is kept. */
  text: string;
  /** Joined by one space, for display. */
  pretty: string;
  /** First line, from 1. */
  line: number;
  /** Comments directly above, without "#" and white space. */
  comments: string[];
  /** First empty line among the continuation lines. */
  emptyContinuation?: number;
}

export class Source {
  /** Physical lines without their ends. */
  readonly lines: string[];
  private at = 0;
  private comments: string[] = [];
  private readonly escape: string;

  /** `skip`: number of directive lines, which are not comments of an instruction. */
  constructor(text: string, escape: "\\" | "`", skip = 0) {
    this.lines = splitLines(text);
    this.at = skip;
    this.escape = escape;
  }

  /** Number of the last line that was read. */
  get line(): number {
    return this.at;
  }

  /** The next instruction, or undefined at the end. */
  next(): LogicalLine | undefined {
    while (this.at < this.lines.length) {
      const line = this.lines[this.at++];
      const trimmed = line.trimStart();
      if (trimmed.startsWith("#")) {
        const comment = trimmed.slice(1).trim();
        if (comment === "") this.comments = [];
        else this.comments.push(comment);
        continue;
      }
      if (trimmed === "") {
        this.comments = [];
        continue;
      }
      const logical = this.join(trimmed);
      if (logical.text.trim() === "") continue;
      return logical;
    }
    return undefined;
  }

  private join(first: string): LogicalLine {
    const start = this.at;
    let emptyContinuation: number | undefined;
    let text = "";
    let pretty = "";
    let line: string | undefined = first;
    while (line !== undefined) {
      const goesOn: boolean = this.continues(line);
      const part: string = goesOn ? trimEnd(line, " \t").slice(0, -1) : line;
      pretty = seam(pretty, part);
      text += part;
      line = undefined;
      while (goesOn && this.at < this.lines.length) {
        const next = this.lines[this.at++];
        const trimmed = next.trimStart();
        if (trimmed.startsWith("#")) continue;
        if (trimmed === "") {
          emptyContinuation ??= this.at;
          continue;
        }
        line = next;
        break;
      }
    }
    const comments = this.comments;
    this.comments = [];
    return { text, pretty: pretty.trim(), line: start, comments, emptyContinuation };
  }

  private continues(line: string): boolean {
    const end = trimEnd(line, " \t");
    // A doubled escape at the end of a line is an escaped character, not a continuation.
    return end.endsWith(this.escape) && end.at(-2) !== this.escape;
  }

  /**
   * Reads the bodies of the heredocs of the last line; gives the first token whose terminator is missing, if
   * any.
   */
  heredocs(tokens: HeredocToken[]): { docs: Heredoc[] } | { unterminated: HeredocToken } {
    const docs: Heredoc[] = [];
    for (const token of tokens) {
      const line = this.at + 1;
      let content = "";
      for (;;) {
        if (this.at >= this.lines.length) return { unterminated: token };
        const next = this.lines[this.at++];
        if ((token.stripTabs ? next.replace(/^\t+/, "") : next) === token.name) break;
        content += `${next}\n`;
      }
      const { name, expand, stripTabs, fd } = token;
      docs.push({ name, content, expand, stripTabs, fd, line });
    }
    return { docs };
  }

  /** The lines `from` to `to` as written. */
  raw(from: number, to: number): string {
    return this.lines.slice(from - 1, to).join("\n");
  }
}

/** Lines of a text, its byte-order mark and line ends (LF or CRLF) removed. */
export function splitLines(text: string): string[] {
  const lines = text.replace(/^\uFEFF/, "").split("\n").map((line) => trimEnd(line, "\r"));
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Not a regular expression: its time would grow with the square of a run in the middle of the text. */
function trimEnd(text: string, characters: string): string {
  let end = text.length;
  while (end > 0 && characters.includes(text[end - 1])) end--;
  return text.slice(0, end);
}

function seam(before: string, after: string): string {
  if (before === "") return after;
  const space = /\s$/.test(before) || /^\s/.test(after) ? " " : "";
  return before.trimEnd() + space + after.trimStart();
}
