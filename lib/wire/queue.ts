/** Chunks between one who gives and one who takes; the giver's window bounds it. */
export class ChunkQueue {
  #chunks: Uint8Array[] = [];
  #waiting: { resolve(chunk: Uint8Array | undefined): void; reject(error: unknown): void }[] = [];
  #ended = false;
  #failure: { error: unknown } | undefined;
  /** Bytes that nobody took yet. */
  size = 0;

  push(chunk: Uint8Array): void {
    if (this.#ended || this.#failure) return;
    const taker = this.#waiting.shift();
    if (taker) return taker.resolve(chunk);
    this.#chunks.push(chunk);
    this.size += chunk.length;
  }

  /** What was given is still taken; then comes the end. */
  end(): void {
    if (this.#failure) return;
    this.#ended = true;
    for (const { resolve } of this.#waiting.splice(0)) resolve(undefined);
  }

  /** What was given and not taken is dropped. */
  fail(error: unknown): void {
    if (this.#failure) return;
    // Whoever has seen the end need not learn how the stream went afterwards.
    if (this.#ended && this.#chunks.length === 0) return;
    this.#failure = { error };
    this.#chunks = [];
    this.size = 0;
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }

  take(): Promise<Uint8Array | undefined> {
    if (this.#failure) return Promise.reject(this.#failure.error);
    const chunk = this.#chunks.shift();
    if (chunk) {
      this.size -= chunk.length;
      return Promise.resolve(chunk);
    }
    if (this.#ended) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }
}
