/** A timer of a longer time fires at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** Resolves after `ms` milliseconds, after 24 days at the latest; rejects with the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, Math.min(ms, LONGEST_MS));
    signal?.addEventListener("abort", abort, { once: true });
  });
}
