/** Parses one instruction of any kind: keyword, flags, heredocs and nested instruction. */
import { suggestion } from "../../base/nearest.ts";
import type { FromInstruction, Heredoc, Instruction, OnbuildInstruction } from "./ast.ts";
import {
  type Body,
  parseCmd,
  parseEntrypoint,
  parseHealthcheck,
  parseRun,
  parseShell,
} from "./commands.ts";
import { FlagSet, takeFlags } from "./flags.ts";
import { findHeredocs, type HeredocToken } from "./heredoc.ts";
import { Line, parseError } from "./line.ts";
import { INSTRUCTIONS, type Keyword } from "./predefined.ts";
import {
  parseArg,
  parseEnv,
  parseExpose,
  parseFrom,
  parseLabel,
  parseMaintainer,
  parseStopsignal,
  parseUser,
  parseVolume,
  parseWorkdir,
} from "./settings.ts";
import type { LogicalLine, Source } from "./source.ts";
import { parseAdd, parseCopy } from "./transfer.ts";
import { firstWord, jsonForm } from "./words.ts";

type Any = FromInstruction | Instruction;
type Parser = (line: Line) => Body<Exclude<Any, OnbuildInstruction>>;

const PARSERS: Record<Exclude<Keyword, "ONBUILD">, Parser> = {
  ADD: parseAdd,
  ARG: parseArg,
  CMD: parseCmd,
  COPY: parseCopy,
  ENTRYPOINT: parseEntrypoint,
  ENV: parseEnv,
  EXPOSE: parseExpose,
  FROM: parseFrom,
  HEALTHCHECK: parseHealthcheck,
  LABEL: parseLabel,
  MAINTAINER: parseMaintainer,
  RUN: parseRun,
  SHELL: parseShell,
  STOPSIGNAL: parseStopsignal,
  USER: parseUser,
  VOLUME: parseVolume,
  WORKDIR: parseWorkdir,
};

const WITH_HEREDOCS: readonly Keyword[] = ["ADD", "COPY", "RUN"];
const NOT_IN_ONBUILD: readonly Keyword[] = ["FROM", "MAINTAINER", "ONBUILD"];

export interface Syntax {
  file: string;
  escape: "\\" | "`";
}

export interface Parsed {
  instruction: Any;
  /** The keyword as written, for the casing rules. */
  keyword: string;
}

/** Parses the instruction that starts with `logical`; reads its heredocs from `source`. */
export function parseInstruction(source: Source, logical: LogicalLine, syntax: Syntax): Parsed {
  return parseText(logical.text, logical.pretty, source, logical, syntax);
}

function keywordOf(word: string, at: { file: string; line: number }): Keyword {
  const upper = word.toUpperCase();
  const found = INSTRUCTIONS.find((keyword) => keyword === upper);
  if (found === undefined) {
    const shown = word.length > 40 ? `${word.slice(0, 37)}...` : word;
    throw parseError(shown, at, `there is no such instruction${suggestion(word, INSTRUCTIONS)}`);
  }
  return found;
}

function parseText(
  text: string,
  pretty: string,
  source: Source,
  logical: LogicalLine,
  syntax: Syntax,
): Parsed {
  const at = { file: syntax.file, line: logical.line };
  const [word, args] = firstWord(text);
  const keyword = keywordOf(word, at);
  const base = (heredocs: Heredoc[]) => ({
    line: logical.line,
    endLine: source.line,
    raw: source.raw(logical.line, source.line),
    text: `${keyword} ${firstWord(pretty)[1]}`.trimEnd(),
    heredocs,
  });
  if (keyword === "ONBUILD") {
    return { instruction: parseOnbuild(args, source, logical, syntax, base), keyword: word };
  }
  const { flags, rest } = takeFlags(args, syntax.escape);
  const fail = (reason: string) => parseError(keyword, at, reason);
  const tokens = heredocTokens(keyword, rest);
  const read = source.heredocs(tokens);
  if ("unterminated" in read) {
    const { name } = read.unterminated;
    throw fail(`its heredoc is not closed: no line holds ${name} alone`);
  }
  const line = new Line({
    keyword,
    ...at,
    escape: syntax.escape,
    flags: new FlagSet(flags, fail),
    rest,
    tokens,
    heredocs: read.docs,
  });
  const body = PARSERS[keyword](line);
  return { instruction: { ...body, ...base(read.docs) }, keyword: word };
}

function heredocTokens(keyword: Keyword, rest: string): HeredocToken[] {
  if (!WITH_HEREDOCS.includes(keyword) || !rest.includes("<<")) return [];
  return jsonForm(rest).kind === "none" ? findHeredocs(rest) : [];
}

function parseOnbuild(
  args: string,
  source: Source,
  logical: LogicalLine,
  syntax: Syntax,
  base: (heredocs: Heredoc[]) => Omit<OnbuildInstruction, "kind" | "trigger" | "instruction">,
): OnbuildInstruction {
  const at = { file: syntax.file, line: logical.line };
  if (args === "") throw parseError("ONBUILD", at, "it needs an instruction");
  if (args.startsWith("--")) {
    throw parseError("ONBUILD", at, "it has no flags; they go behind the nested instruction");
  }
  const nested = keywordOf(firstWord(args)[0], at);
  if (NOT_IN_ONBUILD.includes(nested)) {
    throw parseError("ONBUILD", at, `${nested} cannot be triggered by another build`);
  }
  const { instruction } = parseText(args, firstWord(logical.pretty)[1], source, logical, syntax);
  if (instruction.kind === "from") {
    throw parseError("ONBUILD", at, "FROM cannot be triggered by another build");
  }
  let trigger = args;
  for (const doc of instruction.heredocs) trigger += `\n${doc.content}${doc.name}`;
  return { ...base(instruction.heredocs), kind: "onbuild", trigger, instruction };
}
