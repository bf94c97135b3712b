/** How deep JSON goes, before somebody spends time on reading it. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * True where lists and objects stand in each other more than `limit` deep. Bytes that are not JSON give
 * either answer. Documents of nothing but brackets cost a parser a hundred times what others of their
 * size do.
 */
export function isDeeper(bytes: Uint8Array, limit: number): boolean {
  let depth = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      for (at++; at < bytes.length && bytes[at] !== QUOTE; at++) {
        if (bytes[at] === BACKSLASH) at++;
      }
    } else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > limit) return true;
    } else if (byte === 0x5d || byte === 0x7d) depth--;
  }
  return false;
}
