/** One of the two streams of an exchange: read by heads and bodies, written, and timed. */
import type { Duplex } from "../wire/duplex.ts";
import { Deadline } from "./deadline.ts";
import { Inlet } from "./inlet.ts";

export class Side {
  readonly inlet: Inlet;
  /** What is waited for from the other end. */
  readonly waiting = new Deadline();
  #writing = new Deadline();
  #ended = false;

  constructor(readonly stream: Duplex, private readonly stallMs: number) {
    this.inlet = new Inlet(stream);
  }

  /** A write that does not get on for `stallMs` ends the stream. */
  async write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0) return;
    this.#writing.set(this.stallMs, () => this.end());
    await this.stream.write(bytes);
    this.#writing.clear();
  }

  /** Waits for more with `read`, no longer than `ms`: the stream is over then. */
  async within<T>(ms: number, read: () => Promise<T>): Promise<T> {
    this.waiting.set(ms, () => this.end());
    const result = await read();
    this.waiting.clear();
    return result;
  }

  /** The stream from here on, with what was read of it and not taken. */
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
