/** What the checks of a Dockerfile's text look at. */
import type {
  ArgInstruction,
  Directives,
  FromInstruction,
  Instruction,
  KnownFacts,
  Stage,
} from "./ast.ts";
import type { LogicalLine } from "./source.ts";

/** An instruction with its text as written. */
export interface Seen {
  keyword: string;
  instruction: FromInstruction | Instruction;
  logical: LogicalLine;
}

export interface LintInput {
  directives: Directives;
  globalArgs: ArgInstruction[];
  stages: Stage[];
  seen: Seen[];
  known?: KnownFacts;
}
