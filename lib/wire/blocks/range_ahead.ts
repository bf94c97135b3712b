/** What is fetched beyond what is read, with `subfill`: more and more while reads go on missing something. */
import { type KeptFile, PART } from "./kept_file.ts";

/** Milliseconds without a miss after which it begins anew. */
const IDLE_MS = 250;
/** Parts that are fetched first. */
const FIRST = 4;

/** The parts around one that was missing; undefined: nothing more than what is read. `most`: bytes. */
export function rangeAhead(
  kept: KeptFile,
  part: number,
  most: number,
): { first: number; end: number } | undefined {
  const now = performance.now();
  const again = now - kept.missedAt < IDLE_MS;
  kept.missedAt = now;
  kept.window = again ? Math.min(Math.max(FIRST, kept.window * 2), Math.floor(most / PART)) : 0;
  if (kept.window < 1) return undefined;
  const first = part - part % kept.window;
  const end = Math.min(first + kept.window, Math.ceil(kept.size / PART));
  return end > first ? { first, end } : undefined;
}
