/** Verified tokens by their hash, so that a token's signature is checked once and not per request. */
import { Buffer } from "node:buffer";
import type { PresentedToken, Verified } from "./verifier.ts";

/** Some hundred bytes each. */
const ENTRIES = 4096;

export class TokenCache {
  #entries = new Map<string, Verified>();

  constructor(private readonly now: () => number = Date.now, private readonly limit = ENTRIES) {}

  get({ digest }: PresentedToken): Verified | undefined {
    const key = keyOf(digest);
    const entry = this.#entries.get(key);
    if (!entry) return undefined;
    const { expires = Infinity, holds } = entry;
    if (this.now() < expires && (holds?.() ?? true)) return entry;
    this.#entries.delete(key);
    return undefined;
  }

  set({ digest }: PresentedToken, verified: Verified): void {
    // The oldest goes: what is still in use comes back with one verification.
    if (this.#entries.size >= this.limit) {
      const [oldest] = this.#entries.keys();
      this.#entries.delete(oldest);
    }
    this.#entries.set(keyOf(digest), verified);
  }
}

const keyOf = (digest: Uint8Array) =>
  Buffer.from(digest.buffer, digest.byteOffset, digest.byteLength).toString("latin1");
