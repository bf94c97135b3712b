/** A channel of ssh2 as a byte stream. */
import { SvcError } from "../../../lib/base/errors.ts";
import type { Duplex } from "../../../lib/wire/duplex.ts";
import type { Channel } from "./ssh2.ts";

const broken = () =>
  new SvcError("upstream_failed", "Cannot use the connection of a visitor: it has ended");

export class ChannelStream implements Duplex {
  readonly #channel: Channel;
  readonly #closed = Promise.withResolvers<void>();
  #arrival = Promise.withResolvers<void>();
  readonly #waiting = new Set<() => void>();
  #isClosed = false;
  #readEnd = false;
  #writeEnd = false;

  constructor(channel: Channel) {
    this.#channel = channel;
    channel.on("readable", () => this.#arrival.resolve());
    channel.on("end", () => {
      this.#readEnd = true;
      this.#arrival.resolve();
      this.#settle();
    });
    channel.on("close", () => this.lost());
    channel.on("error", () => this.lost());
  }

  /** Resolves when both directions have ended. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** The SSH connection has broken: ssh2 does not tell its channels. */
  lost(): void {
    this.#isClosed = true;
    this.#closed.resolve();
    this.#arrival.resolve();
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      const bytes: Uint8Array | null = this.#channel.read();
      if (bytes !== null && bytes.length > 0) return bytes;
      if (this.#readEnd) return undefined;
      if (this.#isClosed) throw broken();
      this.#arrival = Promise.withResolvers();
      // An end that was noticed meanwhile is reported by the next read.
      if (this.#channel.readableEnded) return undefined;
      await this.#arrival.promise;
    }
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (this.#isClosed || this.#writeEnd) throw broken();
    await this.#taken((done) => this.#channel.write(bytes, done));
    if (this.#isClosed) throw broken();
  }

  async closeWrite(): Promise<void> {
    if (this.#writeEnd || this.#isClosed) return;
    this.#writeEnd = true;
    await this.#taken((done) => this.#channel.end(done));
    this.#settle();
  }

  /** Resolves when the channel took the bytes, or has closed: a closing channel drops its waiting writers. */
  #taken(act: (done: () => void) => void): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.add(resolve);
      act(() => {
        this.#waiting.delete(resolve);
        resolve();
      });
    });
  }

  /** Both directions have ended: releases the channel. */
  #settle(): void {
    if (!this.#readEnd || !this.#writeEnd || !this.#channel.writableFinished) return;
    this.#channel.close();
    this.lost();
  }

  reset(): void {
    if (this.#isClosed) return;
    this.#channel.destroy();
    // Incoming bytes are read and dropped: otherwise the other side's end would not be noticed.
    this.#channel.resume();
    this.lost();
  }
}
