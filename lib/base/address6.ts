/** Addresses of IPv6 as numbers. */
import { isIPv6 } from "node:net";

/** "fd00::2" as a number; undefined: it is none, or it has a zone. */
export function parseAddress6(text: string): bigint | undefined {
  if (!isIPv6(text) || text.includes("%")) return undefined;
  // A URL has the shortest form, without dots.
  const [left, right = ""] = new URL(`http://[${text}]`).hostname.slice(1, -1).split("::");
  const parts = (half: string) => half === "" ? [] : half.split(":");
  const [head, tail] = [parts(left), parts(right)];
  const all = [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail];
  return all.reduce((sum, part) => sum << 16n | BigInt(`0x${part}`), 0n);
}

/** The shortest form. */
export function formatAddress6(address: bigint): string {
  const parts = Array.from(
    { length: 8 },
    (_, at) => (address >> BigInt(112 - 16 * at) & 0xffffn).toString(16),
  );
  return new URL(`http://[${parts.join(":")}]`).hostname.slice(1, -1);
}
