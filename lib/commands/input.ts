/** Files that a person names; `-` is standard input. */
import { SvcError, systemCode } from "../base/errors.ts";
import type { Io } from "../base/terminal.ts";

const REASONS: Record<string, string> = {
  ENOENT: "there is no such file",
  ENOTDIR: "there is no such file",
  EACCES: "permission denied",
  EISDIR: "it is a directory",
};

/** Makes a readable error of a failure to read a file. */
export function inputError(file: string, what: string, cause: unknown): SvcError {
  const why = REASONS[systemCode(cause) ?? ""] ?? (cause as Error).message;
  return new SvcError("argument_invalid", `Cannot read ${what} ${file}: ${why}`, {
    cause,
    help: "check the path",
  });
}

/** Reads the whole text. Throws `argument_invalid` where that fails. */
export async function readInput(file: string, what: string, io: Io): Promise<string> {
  if (file === "-") return await new Response(io.stdin.readable as BodyInit).text();
  try {
    return await Deno.readTextFile(file, { signal: io.signal });
  } catch (error) {
    if (io.signal.aborted) throw error;
    throw inputError(file, what, error);
  }
}
