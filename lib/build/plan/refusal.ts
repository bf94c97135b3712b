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
