/** BuildKit's build checks, as far as the text alone decides them. */
import { lintFrom } from "./lint_from.ts";
import type { LintInput, Seen } from "./lint_input.ts";
import type { Linter } from "./lint_rules.ts";
import { lintArg, lintStage, type StageFacts } from "./lint_stage.ts";

/** Most variable names that stages hand on, over all stages. */
const MOST_NAMES = 200_000;

export function lintFile(input: LintInput, linter: Linter): void {
  for (const { instruction, logical } of input.seen) {
    linter.instruction(instruction.line, logical.comments);
    if (logical.emptyContinuation !== undefined) {
      linter.warn(
        "NoEmptyContinuation",
        logical.emptyContinuation,
        "A continued instruction has an empty line; a later docker will refuse it",
        instruction.line,
      );
    }
    lintDescription({ instruction, logical }, linter);
  }
  lintCasing(input.seen, linter);
  lintStageNames(input, linter);
  lintFrom(input, linter);
  for (const arg of input.globalArgs) lintArg(arg, linter);
  const named = new Map<string, StageFacts>();
  let names = 0;
  for (const stage of input.stages) {
    const facts = lintStage(stage, input, named, linter);
    names += facts.variables?.size ?? 0;
    // Each stage copies the names of its base stage. Beyond the limit a stage's variables count as unknown.
    if (names > MOST_NAMES) delete facts.variables;
    if (stage.name !== undefined) named.set(stage.name, facts);
  }
  for (const { rule, line, message } of input.known?.found ?? []) linter.warn(rule, line, message);
}

const isLower = (text: string) => text === text.toLowerCase();
const isUpper = (text: string) => text === text.toUpperCase();

function lintCasing(seen: Seen[], linter: Linter): void {
  const stage = seen.slice(seen.findIndex(({ instruction }) => instruction.kind === "from"));
  const lower = stage.filter(({ keyword }) => isLower(keyword)).length;
  const upper = stage.filter(({ keyword }) => isUpper(keyword)).length;
  const wanted = lower > upper ? "lowercase" : "uppercase";
  for (const { keyword, instruction } of stage) {
    if (wanted === "lowercase" ? isLower(keyword) : isUpper(keyword)) continue;
    linter.warn(
      "ConsistentInstructionCasing",
      instruction.line,
      `${keyword} should be ${wanted}, as most instructions of the file are`,
    );
  }
}

function lintStageNames({ stages, seen }: LintInput, linter: Linter): void {
  const names = new Set<string>();
  for (const { line, name, from } of stages) {
    if (name === undefined || from.as === undefined) continue;
    if (!isLower(from.as)) {
      linter.warn("StageNameCasing", line, `Stage name ${from.as} should be lowercase`);
    }
    if (name === "scratch" || name === "context") {
      linter.warn("ReservedStageName", line, `Stage name ${name} is reserved`);
    }
    if (names.has(name)) {
      linter.warn("DuplicateStageName", line, `Stage name ${name} is used by an earlier stage too`);
    }
    names.add(name);
  }
  for (const { keyword, instruction, logical } of seen) {
    if (instruction.kind !== "from" || instruction.as === undefined) continue;
    const as = logical.text.trim().split(/\s+/).at(-2) ?? "";
    const matches = isLower(keyword) ? isLower(as) : isUpper(keyword) ? isUpper(as) : true;
    if (matches) continue;
    linter.warn(
      "FromAsCasing",
      instruction.line,
      `${as} should have the casing of ${keyword}`,
    );
  }
}

function lintDescription(
  { instruction, logical }: Pick<Seen, "instruction" | "logical">,
  linter: Linter,
): void {
  const comment = logical.comments.at(-1);
  if (comment === undefined) return;
  const names = instruction.kind === "from"
    ? (instruction.as === undefined ? [] : [instruction.as, instruction.as.toLowerCase()])
    : instruction.kind === "arg"
    ? instruction.args.map((arg) => arg.key.raw)
    : [];
  if (names.length === 0 || names.includes(comment.split(" ")[0])) return;
  const what = instruction.kind === "from" ? "stage" : "argument";
  linter.warn(
    "InvalidDefinitionDescription",
    instruction.line,
    `The comment above should describe the ${what}: # ${names[0]} DESCRIPTION`,
  );
}
