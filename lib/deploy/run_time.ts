/** How long runs last, whatever is done to the clock meanwhile. */

/**
 * Begins to measure a run. What it ran before now is by the host's clock, which may have been set; what follows is
 * not. Returns the milliseconds since its start.
 */
export function runTime(startedAt: string, now = () => performance.now()): () => number {
  const before = Math.max(0, Date.now() - Date.parse(startedAt)) || 0;
  const begun = now();
  return () => before + now() - begun;
}
