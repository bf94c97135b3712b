/**
 * The runtime's JSON documents without loss of precision: their numbers have 64 bits, a JavaScript number holds
 * 53. Larger whole numbers are bigints here.
 */

/** RLIM_INFINITY: no limit. */
export const UNLIMITED = 2n ** 64n - 1n;

/** The proposal "JSON.parse source text access", which the library's types do not have yet. */
const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => unknown };

/** The text of a document. */
export function encodeDocument(document: object): string {
  return JSON.stringify(
    document,
    (_, value) => typeof value === "bigint" ? rawJSON(String(value)) : value,
  );
}

/** The document of a text; whole numbers beyond 2^53 are bigints. */
export function decodeDocument<T>(text: string): T {
  const exact = (_: string, value: unknown, context?: { source?: string }) => {
    const source = context?.source;
    if (typeof value !== "number" || Number.isSafeInteger(value) || !source) return value;
    return /^-?\d+$/.test(source) ? BigInt(source) : value;
  };
  return JSON.parse(text, exact);
}
