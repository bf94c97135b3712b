/** Somebody who is attached to an instance: what its console prints, beside the log, and what is typed. */
import type { Duplex } from "../../../lib/wire/duplex.ts";

const [NEWLINE, RETURN] = [10, 13];

export interface ListenerParts {
  /** As a process without a terminal prints: without the return that the console puts before each newline. */
  plain: boolean;
  /** Types. Throws where there is no console at present. */
  write: (bytes: Uint8Array) => Promise<void>;
  /** It has left. */
  left: (who: ConsoleListener) => void;
}

export class ConsoleListener implements Duplex {
  readonly #parts: ListenerParts;
  readonly #waiting: Uint8Array[] = [];
  /** A return at the end, whose newline may come. */
  #return = false;
  #over = false;
  #wake = () => {};

  constructor(parts: ListenerParts) {
    this.#parts = parts;
  }

  put(bytes: Uint8Array): void {
    const shown = this.#parts.plain ? this.#plain(bytes) : bytes;
    if (this.#over || shown.length === 0) return;
    this.#waiting.push(shown);
    this.#wake();
  }

  #plain(bytes: Uint8Array): Uint8Array {
    const out = new Uint8Array(bytes.length + 1);
    let size = 0;
    for (const byte of bytes) {
      if (this.#return && byte !== NEWLINE) out[size++] = RETURN;
      this.#return = byte === RETURN;
      if (!this.#return) out[size++] = byte;
    }
    return out.subarray(0, size);
  }

  /** The run has ended. */
  end(): void {
    if (this.#return) this.#waiting.push(Uint8Array.of(RETURN));
    this.#return = false;
    this.#over = true;
    this.#wake();
  }

  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const bytes = this.#waiting.shift();
      if (bytes) return bytes;
      if (this.#over) return undefined;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#parts.write(bytes);
  }

  /** The end of what somebody types is not the end of a terminal. */
  closeWrite(): Promise<void> {
    return Promise.resolve();
  }

  reset(): void {
    this.#waiting.length = 0;
    this.end();
    this.#parts.left(this);
  }
}
