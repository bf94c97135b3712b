/** The bound on a build context. */
import { formatBytes } from "../../base/bytes.ts";
import { SvcError } from "../../base/errors.ts";

/** The error of a context beyond SVC_MAX_BUILD_CONTEXT_BYTES. */
export function contextTooLarge(limit: number): SvcError {
  return new SvcError(
    "too_large",
    `Cannot take the build context: it has more than ${formatBytes(limit)}`,
    {
      help:
        "name what the build does not need in .dockerignore, or raise SVC_MAX_BUILD_CONTEXT_BYTES",
    },
  );
}
