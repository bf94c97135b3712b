/** Chunks up to this size are gathered where they wait: each by itself costs more than it carries. */
const SMALL = 4 * 1024;
const GATHERED = 16 * 1024;

/** Chunks between a writer and a reader; the writer's window limits their size. */
export class ChunkQueue {
  #chunks: Uint8Array[] = [];
  /** The last waiting chunk, if it has room for more. */
  #gathering: { buffer: Uint8Array; used: number } | undefined;
  #waiting: { resolve(chunk: Uint8Array | undefined): void; reject(error: unknown): void }[] = [];
  #ended = false;
  #failure: { error: unknown } | undefined;
  /** Bytes that wait. */
  size = 0;

  push(chunk: Uint8Array): void {
    if (this.#ended || this.#failure) return;
    const taker = this.#waiting.shift();
    if (taker) return taker.resolve(chunk);
    this.size += chunk.length;
    if (chunk.length > SMALL || this.#chunks.length === 0) {
      this.#gathering = undefined;
      this.#chunks.push(chunk);
      return;
    }
    if (!this.#gathering || this.#gathering.used + chunk.length > GATHERED) {
      this.#gathering = { buffer: new Uint8Array(GATHERED), used: 0 };
      this.#chunks.push(this.#gathering.buffer.subarray(0, 0));
    }
    const { buffer, used } = this.#gathering;
    buffer.set(chunk, used);
    this.#gathering.used += chunk.length;
    this.#chunks[this.#chunks.length - 1] = buffer.subarray(0, this.#gathering.used);
  }

  /** Puts back a chunk, which is taken first again. Must not be called while a reader waits. */
  unshift(chunk: Uint8Array): void {
    this.#chunks.unshift(chunk);
    this.size += chunk.length;
  }

  /** Ends the queue: waiting chunks are still taken, then comes the end. */
  end(): void {
    if (this.#failure) return;
    this.#ended = true;
    for (const { resolve } of this.#waiting.splice(0)) resolve(undefined);
  }

  /** Ends the queue with an error: waiting chunks are still taken, then the error is thrown. */
  fail(error: unknown): void {
    if (this.#failure || this.#ended) return;
    this.#failure = { error };
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }

  /** Takes all waiting chunks. */
  takeAll(): Uint8Array[] {
    const all = this.#chunks;
    this.#chunks = [];
    this.#gathering = undefined;
    this.size = 0;
    return all;
  }

  /** Drops the waiting chunks. */
  drop(): void {
    if (this.#chunks.length === 0) return;
    this.#chunks = [];
    this.#gathering = undefined;
    this.#ended = false;
    this.size = 0;
  }

  take(): Promise<Uint8Array | undefined> {
    const chunk = this.#chunks.shift();
    if (chunk) {
      if (this.#chunks.length === 0) this.#gathering = undefined;
      this.size -= chunk.length;
      return Promise.resolve(chunk);
    }
    if (this.#failure) return Promise.reject(this.#failure.error);
    if (this.#ended) return Promise.resolve(undefined);
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }
}
