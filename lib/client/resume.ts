/** Streams of dated entries that continue after a broken connection without repeating an entry. */
import { SvcError } from "../base/errors.ts";

/**
 * Milliseconds. The server reads instances in parallel: a frame may come after a frame that is a little
 * younger.
 */
const WINDOW_MS = 1000;

interface Dated {
  /** RFC 3339 */
  time: string;
}

const keyOf = (entry: Dated) => JSON.stringify(Object.entries(entry).sort());

/** Remembers the entries that were shown lately. */
export class Resumption {
  #recent: { key: string; time: number }[] = [];
  /** How often each entry that will be sent again was shown. */
  #again = new Map<string, number>();

  /**
   * The time to start again from; undefined: nothing was shown yet. Entries that were shown are then skipped.
   */
  begin(): Date | undefined {
    const newest = this.#recent.at(-1)?.time;
    this.#again.clear();
    for (const { key } of this.#recent) this.#again.set(key, (this.#again.get(key) ?? 0) + 1);
    return newest === undefined ? undefined : new Date(newest - WINDOW_MS);
  }

  /** True for an entry that was not shown yet; marks it as shown. */
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

/** Attempts in a row before the stream is given up. */
const ATTEMPTS = 6;
const PAUSE_MS = 250;

/**
 * Wraps an error that the server itself reported in the stream: the stream is not resumed, whatever its code.
 */
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
 * Entries of `open`. Where the connection breaks, `open` is called again with the time to start from, unless
 * `resumes` is false. Throws the error that ends the stream; of a `Reported`, the error inside.
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
