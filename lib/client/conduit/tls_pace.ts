/**
 * A connection below node's TLS, which takes whatever comes and keeps it in memory, also while nobody reads:
 * here it is given no more than a little ahead of what is taken out of it.
 */
import { Duplex as NodeStream } from "node:stream";
import type { Duplex } from "../../wire/duplex.ts";

/** Bytes that may be given before what was in them is waited for. */
const AHEAD = 256 << 10;

export class PacedStream {
  /** For the TLS layer. */
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

  /** Somebody waits for what is in it: all that was given has been taken. */
  hungry(): void {
    this.#hungry = true;
    this.#wake();
  }

  /** Nobody waits. */
  fed(): void {
    this.#hungry = false;
  }

  /** Resolves when more may be given, or when it might. */
  async #more(): Promise<void> {
    if (this.stream.destroyed) throw new Error("the connection was closed");
    if (!this.#hungry) {
      await new Promise<void>((resolve) => this.#wake = resolve);
      return;
    }
    // What was given may not have come through yet: only who still waits then needs more.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.#hungry) this.#left = AHEAD;
  }
}
