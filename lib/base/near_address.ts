/**
 * Addresses that lead back to this host, or that belong to no single host: nothing is fetched from them on
 * others' behalf.
 */
import { BlockList, isIP } from "node:net";

const KINDS: readonly [what: string, ...networks: string[]][] = [
  ["a loopback address", "127.0.0.0/8", "::1/128"],
  ["an unspecified address", "0.0.0.0/8", "::/128"],
  ["a link-local address", "169.254.0.0/16", "fe80::/10"],
  ["a multicast address", "224.0.0.0/4", "ff00::/8"],
  ["a reserved address", "240.0.0.0/4", "fec0::/10"],
];

function blockList(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address, bits] = network.split("/");
    const plain = address.split("%")[0];
    const family = isIP(plain) === 6 ? "ipv6" : "ipv4";
    if (bits === undefined) list.addAddress(plain, family);
    else list.addSubnet(plain, Number(bits), family);
  }
  return list;
}

const lists = KINDS.map(([what, ...networks]) => ({ what, list: blockList(networks) }));

/** The eight parts of an IPv6 address. */
function parts(address: string): number[] {
  const [text] = address.split("%");
  // The canonical form has no IPv4 notation at its end.
  const canonical = new URL(`http://[${text}]`).hostname.slice(1, -1);
  const [head, tail] = canonical.split("::");
  const read = (side = "") => side === "" ? [] : side.split(":").map((part) => parseInt(part, 16));
  const [first, last] = [read(head), read(tail)];
  const gap = tail === undefined ? 0 : 8 - first.length - last.length;
  return [...first, ...new Array(gap).fill(0), ...last];
}

const dotted = (high: number, low: number) =>
  [high >> 8, high & 255, low >> 8, low & 255].join(".");

/** The IPv4 address that an IPv6 address stands for: mapped, compatible, translated or 6to4. */
function within(address: string): string | undefined {
  const all = parts(address);
  const zeros = (from: number, to: number) => all.slice(from, to).every((part) => part === 0);
  if (all[0] === 0x2002) return dotted(all[1], all[2]);
  const mapped = zeros(0, 5) && all[5] === 0xffff;
  const compatible = zeros(0, 6) && all[6] !== 0;
  const siit = zeros(0, 4) && all[4] === 0xffff && all[5] === 0;
  const nat64 = all[0] === 0x64 && all[1] === 0xff9b;
  return mapped || compatible || siit || nat64 ? dotted(all[6], all[7]) : undefined;
}

/**
 * Says what is wrong with an address: loopback, link-local, one of `own` (addresses and networks), or an IPv6
 * address that stands for such a one. Undefined for all other addresses. Throws TypeError where the text is
 * no address.
 */
export function nearAddress(address: string, own: readonly string[]): string | undefined {
  const family = isIP(address);
  if (family === 0) throw new TypeError(`${address} is not an address`);
  const plain = address.split("%")[0];
  const version = family === 4 ? "ipv4" : "ipv6";
  const kind = lists.find(({ list }) => list.check(plain, version));
  if (kind) return kind.what;
  if (blockList(own).check(plain, version)) return "an address of this server";
  const inner = family === 6 ? within(plain) : undefined;
  return inner === undefined ? undefined : nearAddress(inner, own);
}
