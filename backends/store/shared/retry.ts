/** Requests that are made again, for services whose SDK does not do so within bounds. */
import { ConnectionError, StalledError } from "./http.ts";
import { serviceStatus } from "./errors.ts";

/** Before the second attempt; doubled before each further one. */
const PAUSE_MS = 200;

/** The same request may succeed a little later. */
function passes(error: unknown): boolean {
  if (error instanceof StalledError || error instanceof ConnectionError) return true;
  const status = serviceStatus(error) ?? 0;
  return status === 408 || status === 429 || status >= 500 && status !== 501;
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}

/** What `work` resolves to, or the error of its last attempt; the reason of `signal` once that is aborted. */
export async function retried<T>(
  attempts: number,
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1;; attempt++) {
    signal?.throwIfAborted();
    try {
      return await work();
    } catch (error) {
      signal?.throwIfAborted();
      if (attempt >= attempts || !passes(error)) throw error;
      // Spread, so that many requests that failed together do not come back together.
      await pause(PAUSE_MS * 2 ** (attempt - 1) * (0.5 + Math.random()), signal);
    }
  }
}
