/** "Did you mean": the candidate nearest to what was typed, if one is near enough. */

/** Number of insertions, deletions, replacements and swaps of neighbours. */
function distance(a: string, b: string): number {
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        next[j] = Math.min(next[j], before[j - 2] + 1);
      }
    }
    [before, row] = [row, next];
  }
  return row[b.length];
}

export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const lower = word.toLowerCase();
  let best: string | undefined;
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    // Skips the computation: the distance is at least the difference in length.
    if (Math.abs(candidate.length - word.length) >= least) continue;
    const d = distance(lower, candidate.toLowerCase());
    // With half of the name or more replaced, the two have nothing in common.
    if (d * 2 >= Math.max(candidate.length, word.length)) continue;
    if (d < least) [best, least] = [candidate, d];
  }
  return best;
}

/** `; did you mean X?`, or nothing. */
export function suggestion(word: string, candidates: Iterable<string>, prefix = ""): string {
  const near = nearest(word, candidates);
  return near === undefined ? "" : `; did you mean ${prefix}${near}?`;
}
