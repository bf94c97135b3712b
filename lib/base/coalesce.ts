/** Joins small pieces of a stream, so that a thousand of them do not take a thousand writes. */

const CHUNK = 256 * 1024;

/** The same bytes in pieces of 256 KiB. */
export async function* coalesce(
  parts: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  let buffer = new Uint8Array(CHUNK);
  let used = 0;
  for await (let part of parts) {
    while (part.length > 0) {
      const taken = Math.min(part.length, CHUNK - used);
      buffer.set(part.subarray(0, taken), used);
      used += taken;
      part = part.subarray(taken);
      if (used < CHUNK) continue;
      yield buffer;
      buffer = new Uint8Array(CHUNK);
      used = 0;
    }
  }
  if (used > 0) yield buffer.subarray(0, used);
}
