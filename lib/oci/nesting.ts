/** Checks the nesting of JSON before it is parsed. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * True where arrays and objects are nested more than `limit` deep; for bytes that are not JSON the answer
 * means nothing. Parsing a document of brackets alone takes a hundred times as long as others of its size.
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
