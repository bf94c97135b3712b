/** Datagrams on a byte stream: each behind its length, two bytes, the higher one first. */
import { SvcError } from "../base/errors.ts";
import type { Duplex } from "./duplex.ts";

/** What two bytes can say. */
const MAX_DATAGRAM = 0xffff;

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  if (a.length === 0) return b;
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

/**
 * Each `read` and `write` is one datagram, which may be empty. A stream that ends inside a datagram breaks:
 * `upstream_failed`.
 */
export function datagrams(stream: Duplex): Duplex {
  let rest: Uint8Array = new Uint8Array(0);
  return {
    async read() {
      for (;;) {
        const size = rest.length < 2 ? 2 : 2 + (rest[0] << 8 | rest[1]);
        if (rest.length >= size && rest.length >= 2) {
          const datagram = rest.subarray(2, size);
          rest = rest.subarray(size);
          return datagram;
        }
        const more = await stream.read();
        if (more) rest = joined(rest, more);
        else if (rest.length === 0) return undefined;
        else {
          throw new SvcError("upstream_failed", "Cannot read datagrams: the last one is cut short");
        }
      }
    },
    async write(datagram) {
      if (datagram.length > MAX_DATAGRAM) {
        throw new SvcError(
          "argument_invalid",
          `Cannot send a datagram of ${datagram.length} bytes: the most are ${MAX_DATAGRAM}`,
        );
      }
      const framed = new Uint8Array(2 + datagram.length);
      framed[0] = datagram.length >> 8;
      framed[1] = datagram.length;
      framed.set(datagram, 2);
      await stream.write(framed);
    },
    closeWrite: () => stream.closeWrite(),
    reset: () => stream.reset(),
    closed: stream.closed,
  };
}
