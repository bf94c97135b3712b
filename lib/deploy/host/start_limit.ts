/** Limits the time before a container's own process begins: the runtime may hang. */
import { type Deadline, deadline } from "../../base/deadline.ts";
import { formatDuration } from "../../base/duration.ts";
import { SvcError } from "../../base/errors.ts";

/** The error where the runtime did not finish in time. */
export function notBegun(what: string, ms: number): SvcError {
  return new SvcError(
    "timeout",
    `Cannot start ${what}: it did not begin within ${
      formatDuration(ms)
    } (SVC_WORKLOAD_START_TIMEOUT)`,
    {
      help: "see that its /etc/passwd and /etc/group are regular files, and that its mounts answer",
    },
  );
}

/** Aborts when the runtime's time, in milliseconds, is over. */
export const startLimit = (what: string, ms: number): Deadline =>
  deadline(ms, () => notBegun(what, ms), new AbortController().signal);
