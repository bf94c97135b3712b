/** Datagrams on a byte stream: each follows its length in two bytes, most significant byte first. */
import { SvcError } from "../base/errors.ts";
import type { Duplex } from "./duplex.ts";

/** The largest length that two bytes can hold. */
const MAX_DATAGRAM = 0xffff;

const cut = () =>
  new SvcError("upstream_failed", "Cannot read datagrams: the last one is cut short");

/**
 * Each `read` and `write` is one datagram, which may be empty. A stream that ends inside a datagram breaks:
 * `upstream_failed`.
 */
export function datagrams(stream: Duplex): Duplex {
  let chunk: Uint8Array = new Uint8Array(0);
  /** Exactly `length` bytes; undefined at the end of the stream. */
  const take = async (length: number): Promise<Uint8Array | undefined> => {
    if (chunk.length >= length) {
      const whole = chunk.subarray(0, length);
      chunk = chunk.subarray(length);
      return whole;
    }
    const whole = new Uint8Array(length);
    for (let filled = 0; filled < length;) {
      if (chunk.length === 0) {
        const more = await stream.read();
        if (!more && filled === 0) return undefined;
        if (!more) throw cut();
        chunk = more;
      }
      const part = chunk.subarray(0, length - filled);
      whole.set(part, filled);
      filled += part.length;
      chunk = chunk.subarray(part.length);
    }
    return whole;
  };
  return {
    async read() {
      const head = await take(2);
      if (!head) return undefined;
      const datagram = await take(head[0] << 8 | head[1]);
      if (!datagram) throw cut();
      return datagram;
    },
    async write(datagram) {
      if (datagram.length > MAX_DATAGRAM) {
        throw new SvcError(
          "argument_invalid",
          `Cannot send a datagram of ${datagram.length} bytes: the limit is ${MAX_DATAGRAM}`,
        );
      }
      const framed = new Uint8Array(2 + datagram.length);
      framed[0] = datagram.length >> 8;
      framed[1] = datagram.length;
      framed.set(datagram, 2);
      await stream.write(framed);
    },
    closeWrite: () => stream.closeWrite(),
    reset: (why) => stream.reset(why),
    closed: stream.closed,
  };
}
