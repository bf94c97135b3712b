/** Datagrams that wait for a reader. Excess datagrams are dropped, as UDP does. */

const MAX_DATAGRAMS = 256;
const MAX_BYTES = 1 << 20;

export class DatagramQueue {
  #waiting: Uint8Array[] = [];
  #bytes = 0;
  #ended = false;
  readonly #closed = Promise.withResolvers<void>();
  #arrival = Promise.withResolvers<void>();

  /** Resolves when the queue is closed. */
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

  /** The next datagram, which may be empty; undefined after the close. One call at a time. */
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

  /** Drops the waiting datagrams. Idempotent. */
  close(): void {
    this.#ended = true;
    this.#waiting = [];
    this.#closed.resolve();
    this.#arrival.resolve();
  }
}
