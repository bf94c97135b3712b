/** The options of SVC_BLOCK_COHERENCE, which both ends of an `,async` mount read (docs/mounts.md). */

export const COHERENCE = ["subhash", "defer", "subfill"] as const;
export type Coherence = typeof COHERENCE[number];

export const isCoherence = (word: unknown): word is Coherence =>
  COHERENCE.includes(word as Coherence);

/** Completes a set of options: `subfill` implies `subhash`. The result is in the order of {@linkcode COHERENCE}. */
export function completed(options: readonly Coherence[]): Coherence[] {
  return COHERENCE.filter((one) =>
    options.includes(one) || one === "subhash" && options.includes("subfill")
  );
}

/** Words between commas or white space; "classic" and the empty text are no options. Throws RangeError. */
export function readCoherence(text: string): Coherence[] {
  const words = text.split(/[\s,]+/).filter((word) => word !== "" && word !== "classic");
  const wrong = words.find((word) => !isCoherence(word));
  if (wrong === undefined) return completed(words as Coherence[]);
  throw new RangeError(`${JSON.stringify(wrong)} is not one of ${COHERENCE.join(", ")}`);
}
