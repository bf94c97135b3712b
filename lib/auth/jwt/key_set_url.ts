/**
 * SVC_JWT_JWKS_URL: fetched on first use, again after a while, and when a token names an unknown key. Tokens
 * with made-up keys cause a fetch only now and then. A server that is down, hangs or answers nonsense leaves
 * the last good set in use.
 */
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { type KeySource, PUBLIC_ALGORITHMS } from "./key_source.ts";
import { type LookUp, MAX_KEY_SET_BYTES, parseKeySet } from "./key_set.ts";

export interface KeySetUrlOptions {
  log: Logger;
  /** Milliseconds after which a set is fetched again, in the background. */
  freshMs?: number;
  /** Least milliseconds between two fetches. */
  pauseMs?: number;
  /** As `pauseMs`, while there is no set yet: until then no token is accepted. */
  firstPauseMs?: number;
  /** Milliseconds that a fetch may take, with its body. */
  timeoutMs?: number;
  now?: () => number;
}

async function download(url: string, timeoutMs: number): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMs);
  let response;
  try {
    response = await fetch(url, {
      signal,
      headers: { accept: "application/jwk-set+json, application/json" },
    });
    if (!response.ok) {
      await response.body?.cancel();
      throw new Error(`it answered ${response.status}`);
    }
    if (url.startsWith("https:") && !response.url.startsWith("https:")) {
      await response.body?.cancel();
      throw new Error("it redirects to an address without TLS");
    }
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > MAX_KEY_SET_BYTES) throw new Error("it is larger than 1 MiB");
    }
    return text;
  } catch (error) {
    if (signal.aborted) throw new Error("it did not answer in time");
    throw error;
  }
}

export class KeySetUrl implements KeySource {
  readonly algorithms = PUBLIC_ALGORITHMS;
  readonly own = false;
  generation = 0;
  #lookUp: LookUp | undefined;
  #text = "";
  #fetching: Promise<void> | undefined;
  #tried = -Infinity;
  #failure: Error | undefined;
  readonly #settings: Required<Omit<KeySetUrlOptions, "log">> & { log: Logger };

  constructor(readonly url: string, options: KeySetUrlOptions) {
    this.#settings = {
      freshMs: 600_000,
      pauseMs: 30_000,
      firstPauseMs: 2000,
      timeoutMs: 5000,
      now: () => performance.now(),
      ...options,
    };
  }

  touch(): void {
    const { freshMs } = this.#settings;
    if (this.#age() > (this.#failure ? this.#pause() : freshMs)) void this.#refresh();
  }

  async key(...[header, token]: Parameters<KeySource["key"]>) {
    this.touch();
    if (!this.#lookUp) await this.#refresh();
    // The fetch may have failed, or the next one may not be due yet.
    if (!this.#lookUp) throw this.#unavailable();
    try {
      return await this.#lookUp(header, token);
    } catch (error) {
      if ((error as { code?: string }).code !== "ERR_JWKS_NO_MATCHING_KEY") throw error;
      const before = this.generation;
      await this.#refresh();
      if (this.generation === before) throw error;
      return await this.#lookUp(header, token);
    }
  }

  [Symbol.dispose](): void {}

  #age(): number {
    return this.#settings.now() - this.#tried;
  }

  #pause(): number {
    const { pauseMs, firstPauseMs } = this.#settings;
    return this.#lookUp ? pauseMs : firstPauseMs;
  }

  /** Never rejects. Does nothing where the last attempt was a moment ago. */
  #refresh(): Promise<void> {
    if (this.#fetching) return this.#fetching;
    if (this.#age() < this.#pause()) return Promise.resolve();
    this.#tried = this.#settings.now();
    return this.#fetching = this.#fetch().finally(() => this.#fetching = undefined);
  }

  async #fetch(): Promise<void> {
    const { log, timeoutMs } = this.#settings;
    try {
      const text = await download(this.url, timeoutMs);
      if (text !== this.#text) {
        this.#lookUp = await parseKeySet(text);
        this.#text = text;
        this.generation++;
      }
      this.#failure = undefined;
    } catch (error) {
      this.#failure = error as Error;
      const what = this.#lookUp
        ? "cannot fetch the key set; the last good one stays in use"
        : "cannot fetch the key set";
      log.warn(what, { url: this.url, error });
    }
  }

  #unavailable(): SvcError {
    return new SvcError(
      "unavailable",
      "Cannot check the credential: the issuer's key set cannot be fetched",
      { cause: this.#failure },
    );
  }
}
