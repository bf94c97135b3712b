/** The Dockerfile parser: the whole language of BuildKit's Dockerfile reference, nothing expanded. */
import { SvcError } from "../../base/errors.ts";
import type {
  ArgInstruction,
  Dockerfile,
  FromInstruction,
  Instruction,
  ParseOptions,
  Stage,
} from "./ast.ts";
import { parseDirectives } from "./directives.ts";
import { parseInstruction } from "./instruction.ts";
import { parseError } from "./line.ts";
import { LIMITS, tooMuch } from "./limits.ts";
import { lintFile } from "./lint.ts";
import type { Seen } from "./lint_input.ts";
import { Linter } from "./lint_rules.ts";
import { type LogicalLine, Source } from "./source.ts";

/**
 * Parses a Dockerfile. Throws `dockerfile_invalid` for the first error; the message names line and
 * instruction, the detail is `{line, file}`. Instructions that the engine cannot run are not refused here.
 */
export function parseDockerfile(text: string, options: ParseOptions = {}): Dockerfile {
  const file = options.file ?? "Dockerfile";
  if (text.length > LIMITS.dockerfile) {
    throw tooMuch(file, 1, `the file is larger than ${LIMITS.dockerfile >> 20} MiB`);
  }
  const { directives, lines } = parseDirectives(text, file);
  const source = new Source(text, directives.escape, lines);
  const globalArgs: ArgInstruction[] = [];
  const stages: Stage[] = [];
  const seen: Seen[] = [];
  const linter = new Linter(directives.check);
  for (let logical = source.next(); logical !== undefined; logical = source.next()) {
    options.onLine?.(logical.line);
    const { instruction, keyword } = parseInstruction(source, logical, {
      file,
      escape: directives.escape,
    });
    seen.push({ keyword, instruction, logical });
    if (seen.length > LIMITS.instructions) {
      throw tooMuch(file, logical.line, `there are more than ${LIMITS.instructions} instructions`);
    }
    if (stages.length > LIMITS.stages) {
      throw tooMuch(file, logical.line, `there are more than ${LIMITS.stages} stages`);
    }
    const stage = stages.at(-1);
    if (instruction.kind === "from") stages.push(newStage(stages.length, instruction, logical));
    else if (stage !== undefined) stage.instructions.push(instruction);
    else if (instruction.kind === "arg") globalArgs.push(instruction);
    else {
      throw parseError(
        keyword.toUpperCase(),
        { file, line: logical.line },
        "there is no FROM before it; only ARG may stand there",
      );
    }
  }
  if (stages.length === 0) {
    const reason = globalArgs.length > 0
      ? "it has no FROM, so there is no stage to build"
      : "it has no instructions";
    throw new SvcError("dockerfile_invalid", `Cannot parse ${file}: ${reason}`, {
      detail: { line: Math.max(1, source.line), file },
    });
  }
  lintFile({ directives, globalArgs, stages, seen, known: options.known }, linter);
  return { file, directives, globalArgs, stages, warnings: linter.warnings };
}

function newStage(index: number, from: FromInstruction, logical: LogicalLine): Stage {
  const stage: Stage = { index, from, instructions: [], line: logical.line };
  if (from.as === undefined) return stage;
  stage.name = from.as.toLowerCase();
  const prefix = `${stage.name} `;
  const description = logical.comments.find((comment) => comment.startsWith(prefix));
  if (description !== undefined) stage.description = description.slice(prefix.length);
  return stage;
}

/**
 * Parses one entry of an image config's OnBuild: an instruction and its heredocs, always with `\` as the escape.
 * `file` names the image in errors. Throws `dockerfile_invalid`.
 */
export function parseTrigger(trigger: string, options: ParseOptions = {}): Instruction {
  const file = options.file ?? "ONBUILD";
  const source = new Source(trigger, "\\");
  const logical = source.next();
  if (logical === undefined) throw parseError("ONBUILD trigger", { file, line: 1 }, "it is empty");
  const { instruction } = parseInstruction(source, logical, { file, escape: "\\" });
  if (
    instruction.kind === "from" || instruction.kind === "onbuild" ||
    instruction.kind === "maintainer"
  ) {
    const keyword = instruction.kind.toUpperCase();
    throw parseError("ONBUILD trigger", { file, line: 1 }, `${keyword} cannot be a trigger`);
  }
  const more = source.next();
  if (more !== undefined) {
    throw parseError(
      "ONBUILD trigger",
      { file, line: more.line },
      "it is more than one instruction",
    );
  }
  return instruction;
}
