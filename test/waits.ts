/** Waiting for what happens elsewhere, for as long as a machine that does other things too may take. */
import { sleep } from "../lib/base/sleep.ts";

/** How long anything may take. */
export const PATIENCE_MS = 120_000;

/**
 * Asks until the answer is neither false nor undefined, and gives it; an error is no answer yet. Fails after
 * {@linkcode PATIENCE_MS}, with the last error.
 */
export async function eventually<T>(
  what: string,
  ask: () => Promise<T | false | undefined> | T | false | undefined,
  everyMs = 50,
): Promise<T> {
  let cause: unknown;
  for (const until = Date.now() + PATIENCE_MS; Date.now() < until; await sleep(everyMs)) {
    try {
      const found = await ask();
      if (found !== false && found !== undefined) return found;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
  }
  throw new Error(`did not happen: ${what}`, { cause });
}
