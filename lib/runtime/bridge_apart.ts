/** What keeps bridge networks apart from each other and from the host: the same for both families. */
import type { BridgeNetwork } from "./bridge_network.ts";
import type { Rule } from "./rule_tables.ts";

export interface RuleOptions {
  /** The host answers the containers' DNS on the bridge. */
  resolver?: boolean;
  /** The filter table drops what crosses a bridge. */
  filtered?: boolean;
  /** Bridges of other engines: `bridgePatterns`. */
  beyond?: readonly string[];
}

/** How purposes of rules about other engines' bridges begin. */
export const BEYOND = "beyond-";

/** The comment of a network's rule. */
export const markOf = (bridge: string, purpose: string) => `svc:${bridge}:${purpose}`;

/** A rule of the network, found by its purpose. */
export const ruleOn =
  ({ bridge }: BridgeNetwork) =>
  (table: Rule["table"], purpose: string, rule: string, first?: true): Rule => ({
    table,
    mark: markOf(bridge, purpose),
    rule,
    ...(first && { first }),
  });

/** What keeps networks apart, of either family: packets are dropped in the mangle table. */
export function dropsOf(
  network: BridgeNetwork,
  { beyond = [] }: Pick<RuleOptions, "beyond">,
): Rule[] {
  const { bridge, internal, walled, apart } = network;
  const rule = ruleOn(network);
  const drop = (purpose: string, match: string) => rule("mangle", purpose, `${match} -j DROP`);
  const into = `FORWARD ! -i ${bridge} -o ${bridge}`;
  const unasked = "-m conntrack ! --ctstate RELATED,ESTABLISHED";
  const unpublished = "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT";
  return [
    ...(apart ? [drop("among", `FORWARD -i ${bridge} -o ${bridge}`)] : []),
    ...(internal
      ? [
        drop("out-of", `FORWARD -i ${bridge} ! -o ${bridge}`),
        drop("into", into),
        // Answers to the host pass, and so do queries to the resolver, which knows that the network is
        // internal.
        drop("host", `INPUT -i ${bridge} ${unasked}`),
      ]
      // Other networks and machines reach its published ports alone, whatever routes they have.
      : [
        drop("unpublished", `${into} ${unpublished}`),
        // What is let through below would reach all ports of containers that an engine's own rules drop later.
        ...beyond.map((to) =>
          drop(`${BEYOND}${to}`, `FORWARD -i ${bridge} -o ${to} ${unpublished}`)
        ),
      ]),
    ...(walled
      ? [
        drop("wall-out", `FORWARD -i ${bridge} ! -o ${bridge} ${unasked}`),
        drop("wall-host", `INPUT -i ${bridge} ${unasked}`),
      ]
      : []),
  ];
}

/** Lets through what the mangle table has left. */
export function throughOf(network: BridgeNetwork): Rule[] {
  const { bridge } = network;
  const rule = ruleOn(network);
  const known = "-m conntrack --ctstate RELATED,ESTABLISHED,DNAT";
  return [
    rule("filter", "through", `FORWARD -i ${bridge} -j ACCEPT`, true),
    rule("filter", "back", `FORWARD -o ${bridge} ${known} -j ACCEPT`, true),
  ];
}
