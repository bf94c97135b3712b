/** The report of a failed build: the place in the Dockerfile, the command, its last output. */
import type { Problem } from "../../api/problem.ts";
import { type BuildProgress, TAIL } from "./progress.ts";

/** Lines of the Dockerfile shown before and after the one that failed. */
const AROUND = 2;

function excerpt(file: string, source: string, first: number, last: number): string {
  const lines = source.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const from = Math.max(1, first - AROUND), to = Math.min(lines.length, last + AROUND);
  const width = String(to).length;
  let text = `${file}:${first}\n`;
  for (let number = from; number <= to; number++) {
    const mark = number >= first && number <= last ? ">>>" : "   ";
    text += `${String(number).padStart(width)} | ${mark} ${lines[number - 1]}`.trimEnd() + "\n";
  }
  return text;
}

const integer = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isInteger(value) ? value : undefined;

/** The command line for a person: words with blanks are quoted. */
function commandText(command: unknown): string | undefined {
  if (typeof command === "string") return command;
  if (!Array.isArray(command)) return undefined;
  return command.map(String).map((word) => /^[^\s"'\\]+$/.test(word) ? word : JSON.stringify(word))
    .join(" ");
}

export interface FailureInput {
  problem: Problem;
  state: BuildProgress;
  /** The Dockerfile's name as the person gave it, and its text if the client has it. */
  dockerfile: { name: string; text?: string };
}

/**
 * The report between two rules; "" where the failure has no place in the Dockerfile, such as an unreachable
 * registry. The output comes from the problem, else from what the client received of the failed vertex.
 */
export function renderFailure({ problem, state, dockerfile }: FailureInput): string {
  const detail = problem.info ?? {};
  const line = integer(detail.line) ?? state.failed?.line;
  const output = typeof detail.output === "string" && detail.output !== ""
    ? detail.output.replace(/\n$/, "").split("\n").slice(-TAIL)
    : state.failed?.tail ?? [];
  const step = typeof detail.instruction === "string" ? detail.instruction : state.failed?.name;
  const command = commandText(detail.command) ?? step;
  const exitCode = integer(detail.exitCode);
  const parts: string[] = [];
  if (output.length > 0) {
    parts.push(`${step ? `> ${step}\n` : ""}${output.map((l) => `${l}\n`).join("")}`);
  }
  if (line !== undefined && dockerfile.text !== undefined) {
    const last = Math.max(line, integer(detail.endLine) ?? line);
    parts.push(excerpt(dockerfile.name, dockerfile.text, line, last));
  }
  if (parts.length === 0) return "";
  if (command && exitCode !== undefined) parts.push(`${command}\nexit code: ${exitCode}\n`);
  const rule = "------\n";
  return rule + parts.join(rule) + rule;
}
