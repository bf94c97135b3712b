/** A source whose values are kept for their time and renewed before it ends. */
import type { Credential } from "./credential.ts";

/** A kept credential is renewed in the last fifth of its time, and at most so many milliseconds before its end. */
const SHARE = 5;
const MOST_AHEAD_MS = 5 * 60_000;
/** Milliseconds until a failed renewal is tried again, while the old values are good. */
const RETRY_MS = 30_000;

export interface KeptSourceOptions {
  name: string;
  make(signal: AbortSignal): Promise<Credential>;
  /** Milliseconds that values are kept; absent: until they end, or for ever. */
  keepMs?: number;
  notice(text: string): void;
  /** Milliseconds since 1970. */
  now?: () => number;
}

export interface KeptCredential extends Credential {
  /** Milliseconds after which newer values are to be had; absent: these do not change. */
  renewInMs?: number;
}

interface Kept {
  credential: Credential;
  /** When the values are made anew, and when they can no longer be used. */
  renewAt: number;
  endsAt: number;
}

export class KeptSource {
  readonly #options: KeptSourceOptions;
  readonly #now: () => number;
  #kept: Kept | undefined;
  #making: Promise<Kept> | undefined;

  constructor(options: KeptSourceOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** The values, made anew where they are about to end. Several callers at once share one making. */
  async get(signal: AbortSignal): Promise<KeptCredential> {
    const kept = this.#kept;
    if (kept && this.#now() < kept.renewAt) return this.#answer(kept);
    try {
      return this.#answer(await (this.#making ??= this.#make(signal)));
    } catch (error) {
      if (!kept || this.#now() >= kept.endsAt) throw error;
      this.#options.notice(
        `credential ${this.#options.name} is not renewed yet: ${(error as Error).message}`,
      );
      return { ...this.#answer(kept), renewInMs: RETRY_MS };
    }
  }

  async #make(signal: AbortSignal): Promise<Kept> {
    try {
      const { make, keepMs = Infinity } = this.#options;
      const credential = await make(signal);
      const begun = this.#now();
      const { expiration } = credential;
      const endsAt = Math.min(begun + keepMs, expiration?.getTime() ?? Infinity);
      const ahead = Math.min(Math.max(0, endsAt - begun) / SHARE, MOST_AHEAD_MS);
      return this.#kept = { credential, endsAt, renewAt: endsAt - ahead };
    } finally {
      this.#making = undefined;
    }
  }

  #answer({ credential: { values }, renewAt, endsAt }: Kept): KeptCredential {
    if (endsAt === Infinity) return { values };
    const renewInMs = Math.max(0, Math.ceil(renewAt - this.#now()));
    return { values, expiration: new Date(endsAt), renewInMs };
  }
}
