/** A time limit for some work, in addition to the caller's signal. */

export interface Deadline extends Disposable {
  /** Aborts with the caller's signal, or with the error when the time is over. */
  signal: AbortSignal;
}

/** `ms` undefined: no limit. Dispose of the result when the work has ended. */
export function deadline(
  ms: number | undefined,
  late: () => Error,
  signal: AbortSignal,
): Deadline {
  if (ms === undefined) return { signal, [Symbol.dispose]: () => {} };
  const over = new AbortController();
  // A timer takes at most 31 bits of milliseconds.
  const timer = setTimeout(() => over.abort(late()), Math.min(ms, 2 ** 31 - 1));
  return {
    signal: AbortSignal.any([signal, over.signal]),
    [Symbol.dispose]: () => clearTimeout(timer),
  };
}
