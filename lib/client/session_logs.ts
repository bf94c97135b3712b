/**
 * The logs of a deployment during a session: they continue after restarts of the deployment and of the server.
 */
import type { LogFrame } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import type { Client } from "./client.ts";
import { readLogs } from "./deployments.ts";
import { Resumption } from "./resume.ts";

/** Milliseconds between the end of one stream and the next. */
const PAUSE_MS = 500;

/** Errors of a server that is away, and of a deployment that is being replaced. */
const PASSING = ["server_unreachable", "upstream_failed", "unavailable", "not_found", "timeout"];

const passes = (error: unknown) => error instanceof SvcError && PASSING.includes(error.code);

/**
 * Frames as they come, without repetition. A stream that ends is opened again until `over` aborts: from then on
 * nothing more is written. Aborting `signal` ends the generator too; a call that is under way ends with the
 * client's own signal.
 */
export async function* sessionLogs(
  client: Client,
  name: string,
  { over, signal, ...from }: {
    over: AbortSignal;
    signal: AbortSignal;
    /** Where to begin; absent: at the beginning. */
    since?: Date;
    tail?: number;
  },
): AsyncGenerator<LogFrame> {
  const shown = new Resumption();
  let { since, tail } = from;
  while (!signal.aborted) {
    // Read before the stream is opened: all that was written until then is in that stream.
    const last = over.aborted;
    try {
      for await (const frame of readLogs(client, name, { follow: true, since, tail })) {
        if (shown.take(frame)) yield frame;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!passes(error)) throw error;
    }
    if (last || signal.aborted) return;
    const wake = AbortSignal.any([over, signal]);
    await sleep(PAUSE_MS, wake).catch(() => {/* asked for above */});
    // Nothing was shown yet: it begins where it was to begin.
    const again = shown.begin();
    if (again) [since, tail] = [again, undefined];
  }
}
