/** The IPv6 side of a network: its subnet, and the addresses that a spec may ask for. */
import type { NetworkSpec } from "../../api/deploy_spec.ts";
import { formatAddress6, parseAddress6 } from "../../base/address6.ts";
import { hasIPv6 } from "../../runtime/forwarding.ts";
import {
  foreignRoute6,
  formatSubnet6,
  gateway6Of,
  hostRoutes6,
  inSubnet6,
  parseSubnet6,
} from "../../runtime/subnets6.ts";

/** Bits of prefixes: a larger subnet would take in what is the host's, a smaller one has no room. */
const BITS = { least: 32, most: 120 };

export interface Subnet6Options {
  /** The network's already: somebody is on it. */
  there?: string;
  /** What it has where nothing else is asked for. */
  own: string;
  bridge: string;
  warn: (text: string) => void;
  /** Tests give another answer. */
  host?: { hasIPv6: () => Promise<boolean>; routes: () => Promise<string> };
}

/**
 * The network's IPv6 subnet; undefined: this deployment has none there. Who says nothing has it where the network
 * has one.
 */
export async function chooseSubnet6(
  { enableIPv6, subnet = "" }: NetworkSpec,
  { there, own, bridge, warn, host = { hasIPv6, routes: hostRoutes6 } }: Subnet6Options,
): Promise<string | undefined> {
  const asked = subnet.includes(":") ? subnet : undefined;
  if (!(enableIPv6 ?? there !== undefined)) {
    if (asked) warn(`subnet: ${asked} is not used: the network has no IPv6 without enableIPv6`);
    return undefined;
  }
  if (!await host.hasIPv6()) {
    warn("enableIPv6: this host has no IPv6 (sysctl net.ipv6.conf.all.disable_ipv6)");
    return undefined;
  }
  const wanted = asked === undefined ? undefined : parseSubnet6(asked);
  const fits = wanted && wanted.bits >= BITS.least && wanted.bits <= BITS.most;
  const found = there ??
    (fits && await isFree(formatSubnet6(wanted)) ? formatSubnet6(wanted) : own);
  if (asked && (!wanted || formatSubnet6(wanted) !== found)) {
    const why = there
      ? "others are on it"
      : fits
      ? "the host has a route into it"
      : `its prefix may have ${BITS.least} to ${BITS.most} bits`;
    warn(`subnet: the network is ${found}, not ${asked}: ${why}`);
  }
  return found;

  async function isFree(subnet6: string): Promise<boolean> {
    return foreignRoute6(await host.routes(), { subnet6, bridge }) === undefined;
  }
}

/** The address in its shortest form where it is a workload's on that subnet, else why not. */
export function addressOn6(text: string, subnet6?: string): { ip6?: string; why?: string } {
  if (!subnet6) return { why: "is not used: the deployment has no IPv6 there without enableIPv6" };
  const [address, subnet] = [parseAddress6(text), parseSubnet6(subnet6)!];
  // The first is the subnet's, and the second the host's.
  const isOne = address !== undefined && inSubnet6(subnet, address) && address !== subnet.first &&
    formatAddress6(address) !== gateway6Of(subnet6);
  return isOne
    ? { ip6: formatAddress6(address) }
    : { why: `is no workload's address on ${subnet6}; another one is given out` };
}
