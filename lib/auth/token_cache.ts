/** Verified tokens, so that a token's signature is checked once and not per request. */
import type { PresentedToken, Verified } from "./verifier.ts";

/** Of tokens that were good; some hundred bytes and the token each. */
const ENTRIES = 4096;

/**
 * By the token itself: a look-up compares hashes of whole texts, seeded anew in each process, so what it
 * takes tells nobody how much of a guess was right. A digest would cost more than all else of a request.
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
    // The oldest goes: what is still in use comes back with one verification.
    if (this.#entries.size >= this.limit) {
      const [oldest] = this.#entries.keys();
      this.#entries.delete(oldest);
    }
    this.#entries.set(text, verified);
  }
}
