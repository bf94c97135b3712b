/** The logs of a deployment that somebody stays with: they go on over restarts of it and of the server. */
import type { LogFrame } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import type { Client } from "./client.ts";
import { readLogs } from "./deployments.ts";
import { Resumption } from "./resume.ts";

/** Between the end of one stream and the next. */
const PAUSE_MS = 500;

/** What a server says that is away, or of a deployment that is being replaced. */
const PASSING = ["server_unreachable", "upstream_failed", "unavailable", "not_found", "timeout"];

const passes = (error: unknown) => error instanceof SvcError && PASSING.includes(error.code);

/**
 * Frames as they come, none twice. A stream that ends is opened again until `over` aborts: nothing more will
 * be written then. Aborting `signal` ends it too. What `client` is asked is ended by the client's own signal.
 */
export async function* sessionLogs(
  client: Client,
  name: string,
  { over, signal }: { over: AbortSignal; signal: AbortSignal },
): AsyncGenerator<LogFrame> {
  const shown = new Resumption();
  let since: Date | undefined;
  while (!signal.aborted) {
    // Asked before: what was written until then is in the stream.
    const last = over.aborted;
    try {
      for await (const frame of readLogs(client, name, { follow: true, since })) {
        if (shown.take(frame)) yield frame;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!passes(error)) throw error;
    }
    if (last || signal.aborted) return;
    const wake = AbortSignal.any([over, signal]);
    await sleep(PAUSE_MS, wake).catch(() => {/* asked for above */});
    since = shown.begin();
  }
}
