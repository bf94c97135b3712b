/** Checks the instructions of a stage in order, with the facts of the stage that it builds on. */
import { SvcError } from "../../base/errors.ts";
import { suggestion } from "../../base/nearest.ts";
import {
  type ArgInstruction,
  type EnvInstruction,
  heredocText,
  type Instruction,
  type LabelInstruction,
  type Stage,
} from "./ast.ts";
import { variablesOf } from "./expand.ts";
import type { LintInput } from "./lint_input.ts";
import type { Linter } from "./lint_rules.ts";
import { parsePorts } from "./ports.ts";
import { PROXY_ARGS } from "./predefined.ts";
import { wordsOf } from "./words_of.ts";

/** Facts that a stage hands to the stages that build on it. */
export interface StageFacts {
  /** A WORKDIR was set; one warning about a relative WORKDIR is enough. */
  workdir: boolean;
  shell: boolean;
  /** Undefined where the text cannot tell the variables, as with a base image. */
  variables?: Set<string>;
}

const SECRET = /(?:^|_)(?:apikey|auth|credentials?|key|password|pword|passwd|secret|token)(?:_|$)/i;
/** Names that are known without ARG or ENV. */
const KNOWN: readonly string[] = [...PROXY_ARGS, "PATH"];
const HARMLESS = /(?:^|_)(?:public|file|version)(?:_|$)/i;

export function lintStage(
  stage: Stage,
  { directives, known }: Pick<LintInput, "directives" | "known">,
  before: ReadonlyMap<string, StageFacts>,
  linter: Linter,
): StageFacts {
  const { escape } = directives;
  const scratch = stage.from.image.raw === "scratch";
  const base = scratch ? undefined : before.get(stage.from.image.raw.toLowerCase());
  const facts: StageFacts = {
    workdir: base?.workdir ?? false,
    shell: base?.shell ?? false,
    variables: startingWith(base?.variables, known?.environments.get(stage.index)) ??
      (scratch ? new Set() : undefined),
  };
  const last = new Map<string, number>();
  for (const instruction of stage.instructions) {
    lintVariables(instruction, facts, escape, linter);
    lintInstruction(instruction, facts, last, linter);
  }
  return facts;
}

function startingWith(...lists: (Iterable<string> | undefined)[]): Set<string> | undefined {
  const present = lists.filter((list) => list !== undefined);
  return present.length > 0 ? new Set(present.flatMap((list) => [...list])) : undefined;
}

function lintInstruction(
  instruction: Instruction,
  facts: StageFacts,
  last: Map<string, number>,
  linter: Linter,
): void {
  const { kind, line } = instruction;
  switch (kind) {
    case "cmd":
    case "entrypoint":
      if (instruction.command.form === "shell" && !facts.shell) {
        const keyword = kind.toUpperCase();
        linter.warn(
          "JSONArgsRecommended",
          line,
          `${keyword} in shell form keeps signals from the program; use ${keyword} ["…"]`,
        );
      }
      once(kind, line, last, linter);
      break;
    case "healthcheck":
      once(kind, line, last, linter);
      break;
    case "maintainer":
      linter.warn(
        "MaintainerDeprecated",
        line,
        "MAINTAINER is deprecated; use LABEL org.opencontainers.image.authors",
      );
      break;
    case "shell":
      facts.shell = true;
      break;
    case "workdir":
      if (!facts.workdir) lintWorkdir(instruction.path.raw, line, linter);
      facts.workdir = true;
      break;
    case "arg":
      lintArg(instruction, linter);
      break;
    case "env":
      for (const { key } of instruction.pairs) lintSecret("ENV", key.raw, line, linter);
      lintLegacy(instruction, linter);
      break;
    case "label":
      lintLegacy(instruction, linter);
      break;
    case "expose":
      for (const { raw } of instruction.ports) lintPort(raw, line, linter);
      break;
    default:
  }
}

function lintWorkdir(path: string, line: number, linter: Linter): void {
  if (/^["']?([/$\\]|[a-z]:)/i.test(path)) return;
  const message = `WORKDIR ${path} is relative to whatever the base image has`;
  linter.warn("WorkdirRelativePath", line, message);
}

function once(kind: string, line: number, last: Map<string, number>, linter: Linter): void {
  const earlier = last.get(kind);
  if (earlier !== undefined) {
    const keyword = kind.toUpperCase();
    linter.warn(
      "MultipleInstructionsDisallowed",
      earlier,
      `${keyword} has no effect: line ${line} of the same stage has another ${keyword}`,
    );
  }
  last.set(kind, line);
}

export function lintArg({ args, line }: ArgInstruction, linter: Linter): void {
  for (const { key } of args) lintSecret("ARG", key.raw, line, linter);
}

function lintSecret(keyword: string, name: string, line: number, linter: Linter): void {
  if (!SECRET.test(name) || HARMLESS.test(name)) return;
  linter.warn(
    "SecretsUsedInArgOrEnv",
    line,
    `${keyword} ${name} would be readable in the image; use RUN --mount=type=secret`,
  );
}

function lintPort(raw: string, line: number, linter: Linter): void {
  const parsed = parsePorts(raw);
  if ("reason" in parsed) return;
  if (parsed.protocol !== undefined && parsed.protocol !== parsed.protocol.toLowerCase()) {
    linter.warn("ExposeProtoCasing", line, `The protocol of EXPOSE ${raw} should be lowercase`);
  }
  if (parsed.hostPart) {
    linter.warn(
      "ExposeInvalidFormat",
      line,
      `EXPOSE ${raw} should name the container's port only; address and host port are ignored`,
    );
  }
}

function lintVariables(
  instruction: Instruction,
  facts: StageFacts,
  escape: "\\" | "`",
  linter: Linter,
): void {
  const { variables } = facts;
  if (variables === undefined || linter.full) return;
  const declare = (name: string) => {
    if (!name.includes("$")) variables.add(name.replace(/["']/g, ""));
  };
  if (instruction.kind === "arg") {
    for (const { key } of instruction.args) declare(key.raw);
  }
  // With a default an unset name does no harm, but nothing can ever set it: docker warns too.
  for (const name of namesIn(instruction, escape)) {
    if (variables.has(name) || KNOWN.includes(name)) continue;
    linter.warn(
      "UndefinedVar",
      instruction.line,
      `Nothing in the stage sets $${name}${
        suggestion(name, variables, "$") || `; declare it with ARG ${name}`
      }`,
    );
  }
  if (instruction.kind === "env") {
    for (const { key } of instruction.pairs) declare(key.raw);
  }
}

function namesIn(instruction: Instruction, escape: "\\" | "`"): Set<string> {
  // Docker's check leaves EXPOSE out too.
  const words = instruction.kind === "expose" ? [] : wordsOf(instruction);
  const names = words.flatMap((word) => variablesOf(word, { escape }));
  if (instruction.kind !== "copy" && instruction.kind !== "add") return new Set(names);
  const texts = instruction.files.filter((file) => file.expand).map(heredocText);
  return new Set([...names, ...texts.flatMap(heredocVariables)]);
}

function heredocVariables(text: string): string[] {
  try {
    return variablesOf(text, { rawQuotes: true });
  } catch (error) {
    // Reported when the stage is built.
    if (error instanceof SvcError) return [];
    throw error;
  }
}

function lintLegacy(
  { kind, pairs, legacy, line }: EnvInstruction | LabelInstruction,
  linter: Linter,
): void {
  if (!legacy) return;
  const start = `${kind.toUpperCase()} ${pairs[0].key.raw}`;
  linter.warn("LegacyKeyValueFormat", line, `Write ${start}=VALUE instead of ${start} VALUE`);
}
