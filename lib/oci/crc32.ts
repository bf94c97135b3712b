/** Combines checksums of gzip (RFC 1952) that were computed over separate parts. */

/** The polynomial, reflected: bit 31 stands for x^0. */
const POLYNOMIAL = 0xedb88320;
const ONE = 0x80000000;

/** Product of two polynomials over GF(2), modulo the checksum's polynomial. */
function multiply(a: number, b: number): number {
  let product = 0;
  for (let bit = ONE; bit !== 0; bit >>>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? b >>> 1 ^ POLYNOMIAL : b >>> 1;
  }
  return product >>> 0;
}

/** x^(8 * 2^n) for each n that is needed. */
const POWERS: number[] = [ONE >>> 8];
while (POWERS.length < 53) POWERS.push(multiply(POWERS.at(-1)!, POWERS.at(-1)!));

/** x^(8 * bytes). */
function power(bytes: number): number {
  let result = ONE;
  for (let n = 0; bytes > 0; n++, bytes = Math.floor(bytes / 2)) {
    if (bytes % 2 === 1) result = multiply(result, POWERS[n]);
  }
  return result;
}

/** The checksum of two parts in a row, from their checksums and the second part's `size` in bytes. */
export function joinCrc32(first: number, second: number, size: number): number {
  return (multiply(first, power(size)) ^ second) >>> 0;
}
