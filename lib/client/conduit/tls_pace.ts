/**
 * Back pressure below node's TLS, which buffers all input, even while nobody reads. This stream passes on only
 * a little more than was read.
 */
import { Duplex as NodeStream } from "node:stream";
import type { Duplex } from "../../wire/duplex.ts";

/** Bytes that may be passed on before the reader has to take some. */
const AHEAD = 256 << 10;

export class PacedStream {
  /** The stream that the TLS layer runs on. */
  readonly stream: NodeStream;
  #left = AHEAD;
  #hungry = true;
  #wake = () => {};

  constructor(inner: Duplex) {
    const give = async (): Promise<void> => {
      while (this.#left <= 0) await this.#more();
      const bytes = await inner.read();
      this.#left -= bytes?.length ?? 0;
      this.stream.push(bytes ?? null);
    };
    this.stream = new NodeStream({
      allowHalfOpen: true,
      read: () => void give().catch((error) => this.stream.destroy(error)),
      write: (bytes, _encoding, done) => void inner.write(bytes).then(() => done(), done),
      final: (done) => void inner.closeWrite().then(() => done(), done),
      destroy: (error, done) => {
        this.#wake();
        inner.reset();
        done(error);
      },
    });
  }

  /** The reader waits for data: it has taken everything that was passed on. */
  hungry(): void {
    this.#hungry = true;
    this.#wake();
  }

  /** The reader no longer waits. */
  fed(): void {
    this.#hungry = false;
  }

  /** Resolves when more may be passed on, or when that has to be checked again. */
  async #more(): Promise<void> {
    if (this.stream.destroyed) throw new Error("the connection was closed");
    if (!this.#hungry) {
      await new Promise<void>((resolve) => this.#wake = resolve);
      return;
    }
    // TLS may not have delivered the last bytes yet: only a reader that still waits after this turn needs more.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#hungry) this.#left = AHEAD;
  }
}
