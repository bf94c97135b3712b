/** Reads numbers and bytes of a known length from a stream. */
import type { Duplex } from "../duplex.ts";
import { lost } from "../yamux/session.ts";

export class ByteReader {
  #stream: Pick<Duplex, "read">;
  #rest: Uint8Array = new Uint8Array(0);

  constructor(stream: Pick<Duplex, "read">) {
    this.#stream = stream;
  }

  /** Up to `most` bytes, at least one. Throws as a lost connection does where the stream ends. */
  async some(most: number): Promise<Uint8Array> {
    if (this.#rest.length === 0) {
      const chunk = await this.#stream.read();
      if (!chunk) throw lost("the stream ends");
      this.#rest = chunk;
    }
    const part = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(part.length);
    return part;
  }

  async byte(): Promise<number> {
    return (await this.some(1))[0];
  }

  /** Eight bytes, the most significant first. */
  async number(): Promise<number> {
    const bytes = new Uint8Array(8);
    for (let at = 0; at < 8;) {
      const part = await this.some(8 - at);
      bytes.set(part, at);
      at += part.length;
    }
    return Number(new DataView(bytes.buffer).getBigUint64(0));
  }
}
