/** An attached session that continues on a new connection when its connection is lost. */
import type { SocketPath } from "../../api/endpoints.ts";
import { SvcError } from "../../base/errors.ts";
import { sleep } from "../../base/sleep.ts";
import type { Resume } from "../../wire/attached/hello.ts";
import type { SurvivingKind } from "../../wire/attached/kinds.ts";
import { type Attached, type AttachedOptions, isLost } from "../../wire/attached/session.ts";
import type { YamuxStream } from "../../wire/yamux/stream.ts";
import type { Client } from "../client.ts";
import { attach } from "./attach.ts";

/**
 * Pause before the second attempt to resume, in milliseconds; it doubles up to {@linkcode LONGEST_PAUSE_MS}.
 */
const PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 2000;

/** Milliseconds for a restart: a server that was away starts its grace period only when it is back. */
const RESTART_MS = 60_000;

export interface ResumingOptions {
  path: SocketPath;
  /** For errors: "deploy in a session". */
  attempt: string;
  signal: AbortSignal;
  /** Kinds of streams that the server may open on each connection, with the handler of each. */
  takes?: AttachedOptions["takes"];
  /** Streams that the server may have open at once. */
  maxStreams?: number;
  /** Milliseconds that a server which is away is waited for, beyond its grace period. */
  restartMs?: number;
  /** Called when the connection is lost. */
  onLost?(): void;
}

/** True where the connection or the server is away: the attempt is repeated. */
function isAway(error: unknown): boolean {
  return isLost(error) || error instanceof SvcError &&
      ["server_unreachable", "upstream_failed", "unavailable", "timeout"].includes(error.code);
}

export class ResumingSession {
  readonly #client: Client;
  readonly #options: ResumingOptions;
  #resume: { by: Resume; graceMs: number } | undefined;

  constructor(client: Client, options: ResumingOptions) {
    this.#client = client;
    this.#options = options;
  }

  /** From now on the session can be resumed, for `graceMs` milliseconds after its connection is lost. */
  resumable(by: Resume, graceMs: number): void {
    this.#resume = { by, graceMs };
  }

  get isResumable(): boolean {
    return this.#resume !== undefined;
  }

  /**
   * Opens the stream on each new connection and calls `converse` with it. When `converse` returns, the session
   * is closed. Throws what `converse` throws, except for a lost connection of a session that can be resumed;
   * what the server answers when it does not know the session; the signal's reason.
   */
  async run<T>(kind: SurvivingKind, converse: (stream: YamuxStream) => Promise<T>): Promise<T> {
    const { signal, onLost } = this.#options;
    for (;;) {
      using session = await (this.#resume ? this.#reopen(this.#resume) : this.#attach());
      const abort = () => session[Symbol.dispose]();
      signal.addEventListener("abort", abort, { once: true });
      try {
        signal.throwIfAborted();
        const value = await converse(session.open(kind));
        await session.close();
        return value;
      } catch (error) {
        signal.throwIfAborted();
        if (!isLost(error) || !this.#resume) throw error;
        onLost?.();
      } finally {
        signal.removeEventListener("abort", abort);
      }
    }
  }

  #attach(resume?: Resume): Promise<Attached> {
    const { path, attempt, signal, takes, maxStreams } = this.#options;
    return attach(this.#client, path, { attempt, signal, takes, maxStreams, resume });
  }

  async #reopen({ by, graceMs }: { by: Resume; graceMs: number }): Promise<Attached> {
    const { signal, restartMs = RESTART_MS } = this.#options;
    const until = performance.now() + graceMs + restartMs;
    for (let pause = PAUSE_MS;; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      await sleep(pause, signal);
      try {
        return await this.#attach(by);
      } catch (error) {
        signal.throwIfAborted();
        if (!isAway(error) || performance.now() > until) throw error;
      }
    }
  }
}
