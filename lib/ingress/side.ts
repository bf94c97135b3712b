/** One of the two streams of an exchange: reads heads and bodies, writes, and applies time limits. */
import type { Duplex } from "../wire/duplex.ts";
import { Deadline } from "./deadline.ts";
import { Inlet } from "./inlet.ts";

export class Side {
  readonly inlet: Inlet;
  /** Time limit for reads from the other end. */
  readonly waiting = new Deadline();
  #writing = new Deadline();
  #ended = false;

  constructor(readonly stream: Duplex, private readonly stallMs: number) {
    this.inlet = new Inlet(stream);
  }

  /** Ends the stream where a write makes no progress for `stallMs`. */
  async write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    this.#writing.set(this.stallMs, () => this.end());
    await this.stream.write(bytes);
    this.#writing.clear();
  }

  /** Runs `read`; ends the stream where it takes longer than `ms`. */
  async within<T>(ms: number, read: () => Promise<T>): Promise<T> {
    this.waiting.set(ms, () => this.end());
    const result = await read();
    this.waiting.clear();
    return result;
  }

  /** The stream from here on, beginning with bytes that were read and not taken. */
  rest(): Duplex {
    return {
      read: async () => await this.inlet.fill() ? this.inlet.take() : undefined,
      write: (bytes) => this.write(bytes),
      closeWrite: () => this.stream.closeWrite(),
      reset: () => this.stream.reset(),
      closed: this.stream.closed,
    };
  }

  /** Idempotent. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.waiting.end();
    this.#writing.end();
    this.stream.reset();
  }
}
