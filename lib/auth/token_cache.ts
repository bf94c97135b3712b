/** Verified tokens: a token's signature is checked once, not per request. */
import type { PresentedToken, Verified } from "./verifier.ts";

/** Valid tokens that are remembered; each takes the token and some hundred bytes. */
const ENTRIES = 4096;

/**
 * Keyed by the token itself. A look-up compares hashes of whole texts with a seed per process, so its time does
 * not reveal how much of a guess was right. Hashing each token would cost more than the rest of the request.
 */
export class TokenCache {
  #entries = new Map<string, Verified>();

  constructor(private readonly now: () => number = Date.now, private readonly limit = ENTRIES) {}

  get(text: string): Verified | undefined {
    const entry = this.#entries.get(text);
    if (!entry) return undefined;
    const { expires, holds } = entry;
    if ((expires === undefined || this.now() < expires) && (holds === undefined || holds())) {
      return entry;
    }
    this.#entries.delete(text);
    return undefined;
  }

  set({ text }: PresentedToken, verified: Verified): void {
    // The oldest entry is dropped: a token still in use comes back after one verification.
    if (this.#entries.size >= this.limit) {
      const [oldest] = this.#entries.keys();
      this.#entries.delete(oldest);
    }
    this.#entries.set(text, verified);
  }
}
