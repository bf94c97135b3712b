/** Errors that name the Dockerfile's line. */
import { type ErrorCode, SvcError } from "../../base/errors.ts";

/** What stands on a line and cannot be done. */
export function atLine(
  file: string,
  line: number,
  what: string,
  code: ErrorCode = "dockerfile_invalid",
): SvcError {
  return new SvcError(code, `Cannot build ${file}: line ${line}: ${what}`, {
    detail: { file, line },
  });
}

/** An instruction that is read but not executed yet: `Line 12: RUN --mount=type=ssh is not in this build yet`. */
export function notYet(file: string, line: number, what: string): SvcError {
  return new SvcError("unsupported", `Line ${line}: ${what} is not in this build yet`, {
    detail: { file, line },
    help: "leave it out, or build this Dockerfile with another builder",
  });
}
