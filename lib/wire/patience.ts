/** Reads that do not wait for ever: the other side may keep its connection alive and still say nothing. */
import type { Duplex } from "./duplex.ts";
import type { Pace } from "./pace.ts";

export interface Patience {
  /** How long one wait may take; default for ever. */
  patienceMs?: number;
  /** What is thrown after that. */
  late: () => Error;
  /** What the other side has to send in all, while somebody waits for it. */
  pace?: Pace;
}

/** One wait at a time for what the other side has to send. */
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

  /** Waits from now on, unless it does already. */
  begin(): void {
    if (this.#waiting) return;
    this.#waiting = true;
    this.#leave = this.#patience.pace?.wait(this.#onLate);
    this.#arm();
  }

  /** A part of it came, and more is to come. */
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
 * A stream that is reset where one read waits for too long, where next to nothing comes, and at the
 * signal's end; reads then throw the reason. Dispose of it at its end.
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

  /** From now on reads may wait for ever. */
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

  /** Resets it, too. */
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
