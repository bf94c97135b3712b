/** Subnets of IPv4, and which of them the host's routes lead to already. */
import { run } from "../base/process.ts";

export interface Subnet {
  /** The first address, as a number. */
  first: number;
  /** Bits of the prefix. */
  bits: number;
}

/** "10.4.0.0/24", or an address alone; undefined: it is neither. Bits behind the prefix are dropped. */
export function parseSubnet(text: string): Subnet | undefined {
  const match = /^(\d+)\.(\d+)\.(\d+)\.(\d+)(?:\/(\d+))?$/.exec(text);
  const numbers = match?.slice(1, 5).map(Number);
  const bits = Number(match?.[5] ?? 32);
  if (!numbers || numbers.some((part) => part > 255) || bits > 32) return undefined;
  const size = 2 ** (32 - bits);
  const address = numbers.reduce((sum, part) => sum * 256 + part, 0);
  return { first: address - address % size, bits };
}

const size = ({ bits }: Subnet) => 2 ** (32 - bits);

export const overlap = (a: Subnet, b: Subnet): boolean =>
  a.first < b.first + size(b) && b.first < a.first + size(a);

export interface HostRoute extends Subnet {
  /** As `ip route` prints it. */
  text: string;
  device?: string;
}

/**
 * Routes in the output of `ip -4 route show table all`, without default routes: those that lead out, also in two
 * halves.
 */
export function parseRoutes(output: string): HostRoute[] {
  return output.split("\n").flatMap((line) => {
    const text = line.trim();
    const words = text.replace(
      /^(local|broadcast|unicast|blackhole|unreachable|prohibit|throw) /,
      "",
    )
      .split(/\s+/);
    const subnet = parseSubnet(words[0]);
    if (!subnet || subnet.bits < 2) return [];
    const at = words.indexOf("dev");
    return [{ ...subnet, text, ...(at > 0 && { device: words[at + 1] }) }];
  });
}

/** The host's routes now; none where they cannot be read. */
export async function hostRoutes(): Promise<HostRoute[]> {
  const { code, stdout } = await run("ip", ["-4", "route", "show", "table", "all"]);
  return code === 0 ? parseRoutes(stdout) : [];
}

/** A route that leads a part of the subnet elsewhere than to its own bridge. */
export const foreignRoute = (
  routes: readonly HostRoute[],
  { subnet, bridge }: { subnet: string; bridge: string },
): HostRoute | undefined => {
  const wanted = parseSubnet(subnet);
  return wanted && routes.find((route) => route.device !== bridge && overlap(route, wanted));
};
