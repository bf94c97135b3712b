/** Data as SSH packs it (RFC 4251 section 5). */
import { Buffer } from "node:buffer";

/** No real key or signature has longer fields. */
const MAX_STRING = 64 * 1024;

/** Thrown for malformed bytes; the message names what they should have been. */
export class Malformed extends Error {}

/** Reads fields in their order. Throws `Malformed`. */
export class WireReader {
  #at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get done(): boolean {
    return this.#at === this.bytes.length;
  }

  take(length: number): Uint8Array {
    if (length > this.bytes.length - this.#at) throw new Malformed("it ends too early");
    return this.bytes.subarray(this.#at, this.#at += length);
  }

  uint32(): number {
    const bytes = this.take(4);
    return new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0);
  }

  string(): Uint8Array {
    const length = this.uint32();
    if (length > MAX_STRING) throw new Malformed("a field of it is too long");
    return this.take(length);
  }

  text(): string {
    return Buffer.from(this.string()).toString("latin1");
  }

  /** A positive number, without leading zeros. */
  mpint(): Uint8Array {
    const bytes = this.string();
    if (bytes.length === 0 || bytes[0] >= 0x80) {
      throw new Malformed("a number of it is not positive");
    }
    const start = bytes.findIndex((byte) => byte !== 0);
    // A leading zero is allowed only before a high bit.
    if (start < 0 || start > 1 || start === 1 && bytes[1] < 0x80) {
      throw new Malformed("a number of it is not in its shortest form");
    }
    return bytes.subarray(start);
  }

  end(): void {
    if (!this.done) throw new Malformed("something follows its end");
  }
}

export function packString(value: Uint8Array | string): Buffer {
  const bytes = Buffer.from(value as string);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}
