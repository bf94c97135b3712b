/** Bytes that come in parts, as one array. */

export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** All that comes. Throws `tooLong()` as soon as more than `limit` bytes have, and closes the stream. */
export async function readAtMost(
  stream: AsyncIterable<Uint8Array> | null,
  limit: number,
  tooLong: () => Error,
): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of stream ?? []) {
    size += part.length;
    if (size > limit) throw tooLong();
    parts.push(part);
  }
  return concat(parts);
}
