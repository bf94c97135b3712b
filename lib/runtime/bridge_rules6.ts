/**
 * The rules of a network's IPv6 side. They are those of IPv4, but for two things: loopback is never translated, since
 * the kernel takes no loopback address from a bridge; and neighbours are found by ICMPv6, which is let in. Routers
 * are not: a workload must not tell the host where to send its packets.
 */
import { dropsOf, ruleOn, type RuleOptions, throughOf } from "./bridge_apart.ts";
import type { BridgeNetwork } from "./bridge_network.ts";
import type { Rule } from "./rule_tables.ts";

/** Neighbour solicitation and advertisement (RFC 4861 sections 4.3 and 4.4). */
const NEIGHBOURS = [135, 136];

export function rules6Of(network: BridgeNetwork, options: RuleOptions): Rule[] {
  const { bridge, subnet6, internal, walled } = network;
  if (!subnet6) return [];
  const rule = ruleOn(network);
  const neighbours = (chain: string, purpose: string) =>
    NEIGHBOURS.map((type) =>
      rule(
        "mangle",
        `${purpose}-${type}`,
        `${chain} -i ${bridge} -p icmpv6 --icmpv6-type ${type} -j ACCEPT`,
        true,
      )
    );
  const within = `POSTROUTING -s ${subnet6} -d ${subnet6}`;
  return [
    ...(internal || walled
      ? []
      : [rule("nat", "out", `POSTROUTING -s ${subnet6} ! -o ${bridge} -j MASQUERADE`)]),
    rule("nat", "hairpin", `${within} -m conntrack --ctstate DNAT -j MASQUERADE`),
    // Link-local addresses are foreign too: nobody reaches the host's services by them.
    rule("mangle", "source", `PREROUTING -i ${bridge} ! -s ${subnet6} -j DROP`),
    ...neighbours("PREROUTING", "near"),
    ...dropsOf(network, options),
    // These are no connections, so that the rule for answers does not know them.
    ...(internal ? neighbours("INPUT", "host-near") : []),
    ...(walled ? neighbours("INPUT", "wall-near") : []),
    ...(options.filtered ? throughOf(network) : []),
  ];
}
