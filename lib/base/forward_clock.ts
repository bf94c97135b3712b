/**
 * The wall clock, which never goes back here: what has ended for this process does not begin anew when somebody sets
 * the clock back.
 */
export function forwardClock(now: () => number = Date.now): () => number {
  let latest = -Infinity;
  return () => latest = Math.max(latest, now());
}
