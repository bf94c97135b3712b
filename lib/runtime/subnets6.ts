/** Subnets of IPv6: those that svc gives to its networks, and which of them the host's routes lead to already. */
import { createHash } from "node:crypto";
import { formatAddress6, parseAddress6 } from "../base/address6.ts";
import { run } from "../base/process.ts";

export interface Subnet6 {
  /** The first address, as a number. */
  first: bigint;
  /** Bits of the prefix. */
  bits: number;
}

/** "fd00:1::/64"; bits behind the prefix are dropped. Undefined: it is no subnet. */
export function parseSubnet6(text: string): Subnet6 | undefined {
  const [, address = "", length = ""] = /^(.*)\/(\d{1,3})$/.exec(text) ?? [];
  const [number, bits] = [parseAddress6(address), Number(length)];
  if (number === undefined || bits > 128) return undefined;
  const rest = BigInt(128 - bits);
  return { first: number >> rest << rest, bits };
}

export const formatSubnet6 = ({ first, bits }: Subnet6): string =>
  `${formatAddress6(first)}/${bits}`;

export const inSubnet6 = ({ first, bits }: Subnet6, address: bigint): boolean =>
  address >> BigInt(128 - bits) === first >> BigInt(128 - bits);

export const overlap6 = (a: Subnet6, b: Subnet6): boolean =>
  inSubnet6(a, b.first) || inSubnet6(b, a.first);

/** The host's address on a network's bridge: the first one. */
export const gateway6Of = (subnet6: string): string =>
  formatAddress6(parseSubnet6(subnet6)!.first + 1n);

/**
 * The /64 of the n-th network below a base: of the unique local addresses (RFC 4193), with the base's hash in place
 * of a random number. Two servers with one base share bridges, and so these.
 */
export function ownSubnet6(base: string, index: number): string {
  const hash = createHash("sha256").update(`svc ${base}`).digest("hex").slice(0, 10);
  const prefix = BigInt(`0xfd${hash}`) << 80n | BigInt(index) << 64n;
  return formatSubnet6({ first: prefix, bits: 64 });
}

/** The line of `ip -6 route show table all` that leads a part of the subnet elsewhere than to its own bridge. */
export function foreignRoute6(
  output: string,
  { subnet6, bridge }: { subnet6: string; bridge: string },
): string | undefined {
  const wanted = parseSubnet6(subnet6);
  return wanted && output.split("\n").map((line) => line.trim()).find((line) => {
    const words = line.split(/\s+/);
    const [text] = words.filter((word) => word.includes(":"));
    const route = text && parseSubnet6(text.includes("/") ? text : `${text}/128`);
    // Default routes lead out, also in two halves; multicast is no network's.
    if (!route || route.bits < 4 || text.startsWith("ff")) return false;
    return words[words.indexOf("dev") + 1] !== bridge && overlap6(route, wanted);
  });
}

/** The host's IPv6 routes now; none where they cannot be read. */
export async function hostRoutes6(): Promise<string> {
  const { code, stdout } = await run("ip", ["-6", "route", "show", "table", "all"]);
  return code === 0 ? stdout : "";
}
