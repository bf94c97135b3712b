/**
 * One held thing: its holder runs again whenever it fails by itself, after a pause that grows. It is over when the
 * holder returns, when it is released, or when it fails before it ever worked.
 */
import { asSvcError, type ErrorCode, SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import { within } from "./boundary.ts";
import type { Description, HeldState, HeldStatus } from "./protocol.ts";
import type { HeldRecord } from "./records.ts";

export interface HoldContext {
  /** Aborts: end what is held in good order. */
  releasing: AbortSignal;
  /** Aborts: leave at once; somebody else goes on with what is held. */
  leaving: AbortSignal;
  /** What {@linkcode keep} was given last, by an earlier attempt or an earlier agent. */
  kept: unknown;
  /** Aborts where another agent goes on: what this process has open may be kept for it. */
  passing: AbortSignal;
  /** Resolves when it is on record. `waits`: this process lives on until the next agent keeps something else. */
  keep(data: unknown, waits?: boolean): Promise<void>;
  /** What a person reaches by it. */
  shows(lines: readonly string[]): void;
  tell(state: HeldState, detail?: string): void;
  progress(message: string): void;
  /** It works: the command that asked is answered with the value. */
  works(value: unknown, detail?: string): void;
}

/** Holds what is described until it ends by itself, a signal aborts, or it fails. */
export type Holder = (description: Description, context: HoldContext) => Promise<void>;

/** Failures that do not pass by waiting. */
const LASTING: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...["usage", "config_invalid", "argument_invalid", "spec_invalid", "unsupported"] as const,
  ...["not_in_build", "denied", "unauthorized", "reference_invalid"] as const,
]);

/** Pauses before a further attempt, in milliseconds: the first, which doubles, and the longest. */
export interface Pauses {
  first: number;
  longest: number;
}

export interface HeldOptions {
  holder: Holder;
  pauses: Pauses;
  save: (record: HeldRecord) => Promise<void>;
  log: (text: string) => void;
}

export class Held {
  readonly description: Description;
  readonly #options: HeldOptions;
  readonly #releasing = new AbortController();
  readonly #leaving = new AbortController();
  readonly #opened = Promise.withResolvers<void>();
  #kept: unknown;
  #value: unknown;
  #worked: boolean;
  #saving: Promise<void> = Promise.resolve();
  #done = false;
  #state: HeldState = "connecting";
  #since = new Date();
  #detail: string | undefined;
  #shown: readonly string[] = [];
  #onProgress: ((message: string) => void) | undefined;
  /** Resolves when it is over. `left`: somebody else may go on with it. */
  readonly over: Promise<"over" | "left">;

  /** `record`: an earlier agent held it. */
  constructor(description: Description, options: HeldOptions, record?: HeldRecord) {
    this.description = description;
    this.#options = options;
    this.#kept = record?.kept;
    this.#worked = record !== undefined;
    if (record) this.#tell("reconnecting", "the agent before this one ended");
    this.#opened.promise.catch(() => {/* whoever opened it is told */});
    this.over = this.#run().then(async (how) => {
      this.#done = true;
      await this.#saving;
      return how;
    });
  }

  /** The value of the last time that it worked; rejects where it never did. `onProgress` is told until then. */
  async opened(onProgress?: (message: string) => void): Promise<unknown> {
    this.#onProgress = onProgress;
    await this.#opened.promise;
    return this.#value;
  }

  get status(): HeldStatus {
    const { kind, name, project, server } = this.description;
    return {
      ...{ kind, name },
      ...(project !== undefined && { project }),
      ...{ server, state: this.#state, since: this.#since.toISOString(), holds: [...this.#shown] },
      ...(this.#detail !== undefined && { detail: this.#detail }),
    };
  }

  release(): void {
    this.#releasing.abort(new DOMException("released", "AbortError"));
  }

  leave(): void {
    this.#leaving.abort(new DOMException("the agent ends", "AbortError"));
  }

  get #ending(): boolean {
    return this.#releasing.signal.aborted || this.#leaving.signal.aborted;
  }

  #tell(state: HeldState, detail?: string): void {
    if (state !== this.#state) this.#since = new Date();
    this.#state = state;
    this.#detail = detail;
  }

  #context(attempt: AbortSignal): HoldContext {
    return {
      releasing: this.#releasing.signal,
      leaving: AbortSignal.any([this.#leaving.signal, attempt]),
      kept: this.#kept,
      passing: this.#leaving.signal,
      keep: (data, waits) => this.#keep(data, waits),
      shows: (lines) => this.#shown = lines,
      tell: (state, detail) => this.#tell(state, detail),
      progress: (message) => this.#onProgress?.(message),
      works: (value, detail) => {
        this.#worked = true;
        this.#tell("connected", detail);
        this.#value = value;
        this.#opened.resolve();
      },
    };
  }

  /** In the order of calls, and never once it is over: the record is removed then. */
  async #keep(data: unknown, waits = false): Promise<void> {
    this.#kept = data;
    const { description } = this;
    const saved = this.#saving.then(async () => {
      if (this.#done) return;
      const from = waits ? Deno.pid : undefined;
      await this.#options.save({ version: 1, description, kept: data, from });
    });
    this.#saving = saved.catch(() => {/* the caller is told */});
    await saved;
  }

  /** One run of the holder; an error that nobody in it handles ends it. */
  async #attempt(): Promise<void> {
    const attempt = new AbortController();
    const crashed = Promise.withResolvers<never>();
    crashed.promise.catch(() => {/* told by the race */});
    try {
      const work = within(
        crashed.reject,
        () => this.#options.holder(this.description, this.#context(attempt.signal)),
      );
      work.catch(() => {/* after a crash nobody waits for it */});
      await Promise.race([work, crashed.promise]);
    } finally {
      attempt.abort(new DOMException("the attempt is over", "AbortError"));
    }
  }

  async #run(): Promise<"over" | "left"> {
    const { pauses, log } = this.#options;
    const { kind, name } = this.description;
    for (let pause = pauses.first;; pause = Math.min(pause * 2, pauses.longest)) {
      const begun = performance.now();
      try {
        await this.#attempt();
        if (!this.#leaving.signal.aborted) log(`${kind} ${name}: it has ended`);
        return this.#leaving.signal.aborted ? "left" : "over";
      } catch (error) {
        if (this.#releasing.signal.aborted) return "over";
        if (this.#leaving.signal.aborted) return "left";
        if (!this.#worked) {
          this.#opened.reject(error);
          return "over";
        }
        // It worked for a while: the next attempt may come soon.
        if (performance.now() - begun > pauses.longest) pause = pauses.first;
        const known = asSvcError(error);
        log(`${kind} ${name}: ${known.message}`);
        if (LASTING.has(known.code)) return await this.#failed(known);
        this.#tell("reconnecting", known.message);
      }
      await sleep(pause, AbortSignal.any([this.#releasing.signal, this.#leaving.signal]))
        .catch(() => {/* looked at next */});
      if (this.#ending) return this.#leaving.signal.aborted ? "left" : "over";
    }
  }

  /** It stays on the list, until somebody releases it or asks for it again. */
  async #failed(error: SvcError): Promise<"over" | "left"> {
    this.#tell("failed", error.message);
    const ended = Promise.withResolvers<"over" | "left">();
    this.#releasing.signal.addEventListener("abort", () => ended.resolve("over"), { once: true });
    this.#leaving.signal.addEventListener("abort", () => ended.resolve("left"), { once: true });
    return this.#ending ? (this.#leaving.signal.aborted ? "left" : "over") : await ended.promise;
  }
}
