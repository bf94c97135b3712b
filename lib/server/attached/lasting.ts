/** A session that survives lost connections: one caller at a time, who may reconnect within a grace period. */
import { sha256 } from "../../base/hash.ts";

/** Runs `work` after so many milliseconds unless it is cancelled before. */
export type Timer = (ms: number, work: () => void) => () => void;

export const systemTimer: Timer = (ms, work) => {
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
};

/** A secret for its caller, and its sha256 in hex, which is all that the server keeps. */
export async function newToken(): Promise<{ token: string; kept: string }> {
  const token = crypto.getRandomValues(new Uint8Array(32)).toHex();
  return { token, kept: await sha256(token) };
}

export async function isToken(token: string, kept: string): Promise<boolean> {
  return await sha256(token) === kept;
}

/** What a session needs of a caller's connection. */
export interface Droppable {
  /** Hangs up at once. */
  drop(why: string): void;
}

export class Lasting<C extends Droppable> {
  readonly #after: Timer;
  #connection: C | undefined;
  #cancel: (() => void) | undefined;
  #stopped = false;

  constructor(after: Timer) {
    this.#after = after;
  }

  /** The caller's connection; undefined while it is lost. */
  get connection(): C | undefined {
    return this.#connection;
  }

  /** A caller has connected: the countdown stops. An earlier connection is closed, even if it seems to be alive. */
  connect(connection: C): void {
    if (this.#stopped) return connection.drop("the server is shutting down");
    this.#connection?.drop("the session was resumed by another connection");
    this.#connection = connection;
    this.stopCountdown();
  }

  /** True where `connection` was the session's current connection. */
  disconnect(connection: C): boolean {
    if (this.#connection !== connection) return false;
    this.#connection = undefined;
    return true;
  }

  /**
   * Calls `over` when nobody has resumed the session within `ms` milliseconds. A running countdown is not
   * restarted.
   */
  countDown(ms: number, over: () => void): void {
    if (this.#stopped || this.#cancel || this.#connection) return;
    this.#cancel = this.#after(ms, () => {
      this.#cancel = undefined;
      over();
    });
  }

  stopCountdown(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  /** The server shuts down: later connections are refused, and the countdown stops. */
  stop(): void {
    this.#stopped = true;
    this.stopCountdown();
  }
}
