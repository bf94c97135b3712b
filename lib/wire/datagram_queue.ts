/** Datagrams that wait for a reader. What is too much is dropped, as UDP does. */

const MAX_DATAGRAMS = 256;
const MAX_BYTES = 1 << 20;

export class DatagramQueue {
  #waiting: Uint8Array[] = [];
  #bytes = 0;
  #ended = false;
  readonly #closed = Promise.withResolvers<void>();
  #arrival = Promise.withResolvers<void>();

  /** Resolves with the close. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  push(datagram: Uint8Array): void {
    const full = this.#waiting.length >= MAX_DATAGRAMS || this.#bytes + datagram.length > MAX_BYTES;
    if (full || this.#ended) return;
    this.#waiting.push(datagram);
    this.#bytes += datagram.length;
    this.#arrival.resolve();
  }

  /** The next one, which may be empty; undefined once it was closed. One call at a time. */
  async take(): Promise<Uint8Array | undefined> {
    while (!this.#ended) {
      const datagram = this.#waiting.shift();
      if (datagram) {
        this.#bytes -= datagram.length;
        return datagram;
      }
      this.#arrival = Promise.withResolvers();
      await this.#arrival.promise;
    }
    return undefined;
  }

  /** What waits is dropped. Idempotent. */
  close(): void {
    this.#ended = true;
    this.#waiting = [];
    this.#closed.resolve();
    this.#arrival.resolve();
  }
}
