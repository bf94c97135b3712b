/** The beginning of a container's own process, which the runtime may never come to. */
import { deadline } from "../../../lib/base/deadline.ts";
import { formatDuration } from "../../../lib/base/duration.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import type { Runtime } from "../../../lib/runtime/runtime.ts";
import type { Host } from "./host.ts";

/** Of what the runtime did not come to the end of. */
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

/** Aborts when the runtime has had its time. */
export const startLimit = (host: Host, what: string) =>
  deadline(
    host.config.startMs,
    () => notBegun(what, host.config.startMs),
    new AbortController().signal,
  );

/**
 * Has a container that was created begin: the runtime reads its passwd and group before, which nobody may
 * come to the end of. It is removed where it does not begin in time; throws `timeout` then.
 */
export async function beginContainer(host: Host, runtime: Runtime, key: string): Promise<void> {
  using limit = startLimit(host, `container ${key}`);
  try {
    await runtime.start(key, limit.signal);
  } catch (error) {
    if (limit.signal.aborted) await runtime.delete(key, { force: true });
    throw error;
  }
}
