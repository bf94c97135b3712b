/** Errors that name the Dockerfile's line. */
import { type ErrorCode, SvcError } from "../../base/errors.ts";

/** The error for something on a line that cannot be built. */
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
