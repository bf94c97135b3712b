/** Streams of dated entries that go on where their connection broke off, no entry twice. */
import { SvcError } from "../base/errors.ts";

/** Instances are asked side by side: a frame may come after one that is a little younger. */
const WINDOW_MS = 1000;

interface Dated {
  /** RFC 3339 */
  time: string;
}

const keyOf = (entry: Dated) => JSON.stringify(Object.entries(entry).sort());

/** Remembers what was shown lately. */
export class Resumption {
  #recent: { key: string; time: number }[] = [];
  /** How often each frame that comes again was shown. */
  #again = new Map<string, number>();

  /** Where to begin anew; undefined: nothing was shown yet. Frames from there on are passed over once each. */
  begin(): Date | undefined {
    const newest = this.#recent.at(-1)?.time;
    this.#again.clear();
    for (const { key } of this.#recent) this.#again.set(key, (this.#again.get(key) ?? 0) + 1);
    return newest === undefined ? undefined : new Date(newest - WINDOW_MS);
  }

  /** True for a frame that was not shown yet; it is then. */
  take(frame: Dated): boolean {
    const key = keyOf(frame);
    const left = this.#again.get(key) ?? 0;
    if (left > 0) {
      this.#again.set(key, left - 1);
      return false;
    }
    const time = Date.parse(frame.time);
    this.#recent.push({ key, time });
    while (this.#recent[0].time < time - WINDOW_MS) this.#recent.shift();
    return true;
  }
}

/** Attempts to go on, one after the other, before it is given up. */
const ATTEMPTS = 6;
const PAUSE_MS = 250;

/** What the server said itself: no broken connection, whatever its code. */
export class Reported extends Error {
  readonly error: SvcError;

  constructor(error: SvcError) {
    super(error.message);
    this.error = error;
  }
}

const isBroken = (error: unknown) =>
  error instanceof SvcError &&
  (error.code === "upstream_failed" || error.code === "server_unreachable");

/**
 * Entries of `open`, which is asked again from a time on where the connection broke; not where `resumes` is
 * false. Throws what ends it, what the server said (`Reported`) as its own error.
 */
export async function* resuming<T extends Dated>(
  resumes: boolean,
  open: (since?: Date) => AsyncGenerator<T>,
): AsyncGenerator<T> {
  const shown = new Resumption();
  let since: Date | undefined;
  for (let attempt = 0;; attempt++) {
    const entries = open(since);
    try {
      for (;;) {
        const { done, value } = await entries.next();
        if (done) return;
        if (!shown.take(value)) continue;
        attempt = 0;
        yield value;
      }
    } catch (error) {
      if (error instanceof Reported) throw error.error;
      if (!resumes || !isBroken(error) || attempt >= ATTEMPTS) throw error;
    } finally {
      await entries.return(undefined);
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS * 2 ** attempt));
    since = shown.begin();
  }
}
