/** A bound on how long something may take, beside the caller's own wish to end it. */

export interface Deadline extends Disposable {
  /** Aborted with the caller's, and with the error when the time is over. */
  signal: AbortSignal;
}

/** `ms` undefined: no bound. Dispose of it when the work has ended. */
export function deadline(
  ms: number | undefined,
  late: () => Error,
  signal: AbortSignal,
): Deadline {
  if (ms === undefined) return { signal, [Symbol.dispose]: () => {} };
  const over = new AbortController();
  // Timers hold no more than 31 bits of milliseconds.
  const timer = setTimeout(() => over.abort(late()), Math.min(ms, 2 ** 31 - 1));
  return {
    signal: AbortSignal.any([signal, over.signal]),
    [Symbol.dispose]: () => clearTimeout(timer),
  };
}
