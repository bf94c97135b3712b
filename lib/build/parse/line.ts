/** The input of an instruction's parser, and its errors. */
import { type ErrorCode, SvcError } from "../../base/errors.ts";
import type { Heredoc, Word } from "./ast.ts";
import type { FlagSet } from "./flags.ts";
import type { HeredocToken } from "./heredoc.ts";
import type { Keyword } from "./predefined.ts";
import { parseWord, WordSyntaxError } from "./shell_word.ts";

export interface Position {
  file: string;
  line: number;
}

const CODE: ErrorCode = "dockerfile_invalid";

/** `Cannot parse RUN on line 3 of Dockerfile: …`. */
export function parseError(what: string, at: Position, reason: string): SvcError {
  return new SvcError(CODE, `Cannot parse ${what} on line ${at.line} of ${at.file}: ${reason}`, {
    detail: { line: at.line, file: at.file },
  });
}

/** One instruction, split into keyword, flags and the rest. */
export class Line {
  readonly keyword: Keyword;
  readonly file: string;
  readonly line: number;
  readonly escape: "\\" | "`";
  readonly flags: FlagSet;
  /** The arguments after the flags, trimmed and not expanded. */
  readonly rest: string;
  /** Heredocs; their positions are within `rest`. */
  readonly tokens: HeredocToken[];
  readonly heredocs: Heredoc[];

  constructor(
    fields: Pick<
      Line,
      "keyword" | "file" | "line" | "escape" | "flags" | "rest" | "tokens" | "heredocs"
    >,
  ) {
    this.keyword = fields.keyword;
    this.file = fields.file;
    this.line = fields.line;
    this.escape = fields.escape;
    this.flags = fields.flags;
    this.rest = fields.rest;
    this.tokens = fields.tokens;
    this.heredocs = fields.heredocs;
  }

  fail(reason: string): SvcError {
    return parseError(this.keyword, this, reason);
  }

  /** A word that is expanded later; its syntax is checked now. */
  word(raw: string): Word {
    try {
      parseWord(raw, { escape: this.escape, rawQuotes: false });
    } catch (error) {
      if (!(error instanceof WordSyntaxError)) throw error;
      const shown = raw.length > 60 ? `${raw.slice(0, 57)}...` : raw;
      throw this.fail(`in ${shown}, ${error.message}`);
    }
    return { raw, line: this.line };
  }

  /** The arguments; throws where there are none. */
  required(what: string): string {
    if (this.rest === "") throw this.fail(`it needs ${what}`);
    return this.rest;
  }
}
