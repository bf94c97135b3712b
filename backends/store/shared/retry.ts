/** Retries requests, for services whose SDK does not limit its own retries. */
import { ConnectionError, StalledError } from "./http.ts";
import { serviceStatus } from "./errors.ts";

/** Milliseconds before the second attempt; doubled before each further one. */
const PAUSE_MS = 200;

/** True for errors that may pass: the same request may succeed a little later. */
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

/** The result of `work`, or the error of its last attempt, or the reason of `signal` once it is aborted. */
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
      // Random, so that requests that failed together are not repeated together.
      await pause(PAUSE_MS * 2 ** (attempt - 1) * (0.5 + Math.random()), signal);
    }
  }
}
