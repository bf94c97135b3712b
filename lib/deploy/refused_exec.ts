/** Commands that never ran in an instance: a shell's exit codes, and what is told. */
import type { ExecSession } from "./backend.ts";

/** The command's file cannot be executed. */
export const NOT_EXECUTABLE = 126;
/** There is no such command. */
export const NOT_FOUND = 127;

/** Why a command cannot be run, from such a code. */
export const refusalOf = (code: number): string =>
  code === NOT_EXECUTABLE ? "permission denied" : "no such command in the container";

/** A session whose command never ran; its standard error has the reason. */
export function refusedExec(command: string, code: number): ExecSession {
  const text = new TextEncoder().encode(`Cannot run ${command}: ${refusalOf(code)}\n`);
  return {
    refused: true,
    stdin: new WritableStream(),
    stdout: ReadableStream.from([]),
    stderr: ReadableStream.from([text]),
    exit: Promise.resolve(code),
    kill: () => Promise.resolve(),
  };
}
