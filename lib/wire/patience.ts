/** Reads with a time limit: the other side may keep its connection alive and still send nothing. */
import type { Duplex } from "./duplex.ts";
import type { Pace } from "./pace.ts";

export interface Patience {
  /** Milliseconds that one wait may take; default: no limit. */
  patienceMs?: number;
  /** Makes the error after that time. */
  late: () => Error;
  /** The least pace of the other side while somebody waits. */
  pace?: Pace;
}

/** A time limit for one wait at a time. */
export class Wait {
  #patience: Patience;
  #onLate: (error: Error) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #leave: (() => void) | undefined;
  #waiting = false;

  constructor(patience: Patience, onLate: (error: Error) => void) {
    this.#patience = patience;
    this.#onLate = onLate;
  }

  /** Starts a wait, unless one is running. */
  begin(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    this.#leave = this.#patience.pace?.wait(this.#onLate);
    this.#arm();
  }

  /** A part of the data came; the wait goes on for the rest. */
  came(bytes: number): void {
    this.#patience.pace?.came(bytes);
    if (this.#waiting) this.#arm();
  }

  end(): void {
    this.#waiting = false;
    clearTimeout(this.#timer);
    this.#leave?.();
    this.#leave = undefined;
  }

  #arm(): void {
    const { patienceMs, late } = this.#patience;
    clearTimeout(this.#timer);
    if (patienceMs !== undefined) this.#timer = setTimeout(() => this.#onLate(late()), patienceMs);
  }
}

/**
 * A stream that is reset where one read waits too long, where data comes too slowly, and when the signal
 * aborts; reads then throw the reason. Dispose of it at its end.
 */
export class PatientStream implements Duplex, Disposable {
  #stream: Duplex;
  #wait: Wait | undefined;
  #signal: AbortSignal | undefined;
  #lost: { error: unknown } | undefined;

  /** Time in which nobody reads does not count. */
  constructor(stream: Duplex, patience: Patience, signal?: AbortSignal) {
    this.#stream = stream;
    this.#wait = new Wait(patience, (error) => this.#lose(error));
    this.#signal = signal;
    if (signal?.aborted) this.#abort();
    signal?.addEventListener("abort", this.#abort, { once: true });
  }

  /** From now on reads have no time limit. */
  endless(): void {
    this.#wait = undefined;
  }

  async read(): Promise<Uint8Array | undefined> {
    const wait = this.#wait;
    wait?.begin();
    try {
      const bytes = await this.#stream.read();
      wait?.came(bytes?.length ?? 0);
      if (this.#lost) throw this.#lost.error;
      return bytes;
    } catch (error) {
      throw this.#lost ? this.#lost.error : error;
    } finally {
      wait?.end();
    }
  }

  async write(bytes: Uint8Array): Promise<void> {
    try {
      await this.#stream.write(bytes);
    } catch (error) {
      throw this.#lost ? this.#lost.error : error;
    }
  }

  closeWrite(): Promise<void> {
    return this.#stream.closeWrite();
  }

  reset(): void {
    this.#stream.reset();
  }

  /** Also resets the stream. */
  [Symbol.dispose](): void {
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#stream.reset();
  }

  #abort = () => this.#lose(this.#signal!.reason);

  #lose(error: unknown): void {
    this.#lost ??= { error };
    this.#stream.reset();
  }
}
