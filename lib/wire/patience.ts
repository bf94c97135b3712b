/** Reads that do not wait for ever: the other side may keep its connection alive and still say nothing. */
import type { Duplex } from "./duplex.ts";

/** A stream that is reset where one read waits for too long. */
export class PatientStream implements Duplex {
  #stream: Duplex;
  #late: () => Error;
  #lost: Error | undefined;
  /** How long one read may wait; undefined: for ever. Time in which nobody reads does not count. */
  patienceMs: number | undefined;

  /** What was read for too long, and what comes after it, throws `late()`. */
  constructor(stream: Duplex, patienceMs: number, late: () => Error) {
    this.#stream = stream;
    this.#late = late;
    this.patienceMs = patienceMs;
  }

  async read(): Promise<Uint8Array | undefined> {
    const timer = this.patienceMs === undefined ? undefined : setTimeout(() => {
      this.#lost = this.#late();
      this.#stream.reset();
    }, this.patienceMs);
    try {
      return await this.#stream.read();
    } catch (error) {
      throw this.#lost ?? error;
    } finally {
      clearTimeout(timer);
    }
  }

  async write(bytes: Uint8Array): Promise<void> {
    try {
      await this.#stream.write(bytes);
    } catch (error) {
      throw this.#lost ?? error;
    }
  }

  closeWrite(): Promise<void> {
    return this.#stream.closeWrite();
  }

  reset(): void {
    this.#stream.reset();
  }
}
