/** Files that a person names; `-` is standard input. */
import { fileTrouble, SvcError } from "../base/errors.ts";
import type { Io } from "../base/terminal.ts";

/** Makes a readable error of a failure to read a file. */
export function inputError(file: string, what: string, cause: unknown): SvcError {
  const message = `Cannot read ${what} ${file}: ${fileTrouble(cause)}`;
  return new SvcError("argument_invalid", message, { cause, help: "check the path" });
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
