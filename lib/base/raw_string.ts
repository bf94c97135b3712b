/**
 * File names as strings. Linux names are bytes, nearly always UTF-8; a byte that is not is carried as a
 * lone low surrogate U+DC80..U+DCFF (the scheme of PEP 383), so that every name survives a round trip.
 */
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** Bytes as a string that {@linkcode encodeRaw} turns back into the same bytes. */
export function decodeRaw(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return decodeSlowly(bytes);
  }
}

function decodeSlowly(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const first = bytes[at];
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      text += strict.decode(bytes.subarray(at, at + length));
      at += length;
    } catch {
      text += String.fromCharCode(0xdc00 + first);
      at++;
    }
  }
  return text;
}

/** The bytes of a file name. */
export function encodeRaw(text: string): Uint8Array<ArrayBuffer> {
  if (text.isWellFormed()) return encoder.encode(text);
  const out: number[] = [];
  for (const char of text) {
    const code = char.codePointAt(0)!;
    if (code >= 0xdc80 && code <= 0xdcff) out.push(code - 0xdc00);
    else out.push(...encoder.encode(char));
  }
  return Uint8Array.from(out);
}

/** Order of the names' bytes, which differs from string order above U+FFFF. */
export function compareRaw(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i), y = b.charCodeAt(i);
    if (x === y) continue;
    if (x < 0xd800 && y < 0xd800) return x - y;
    return compareBytes(encodeRaw(a), encodeRaw(b));
  }
  return a.length - b.length;
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}
