/**
 * The host's firewall rules for a bridge network: one set per network, so that attaching a container adds none.
 * The rules masquerade outgoing traffic and let published ports be reached from the host's loopback and from
 * the network itself. They keep containers from services on the host's loopback and from other networks, and
 * let them ask the host's resolver on the bridge. Packets are dropped in the mangle table: rules of the filter
 * table, which other programs write too, cannot accept them first. Where the filter table drops what crosses a
 * bridge, the network's own traffic is let through first.
 */
import { Mutex } from "../base/mutex.ts";
import { BEYOND, dropsOf, markOf, ruleOn, type RuleOptions, throughOf } from "./bridge_apart.ts";
import type { BridgeNetwork } from "./bridge_network.ts";
import { rules6Of } from "./bridge_rules6.ts";
import { bridgePatterns } from "./engine_bridges.ts";
import {
  applyRules,
  type Family,
  forwardingFiltered,
  missingOf,
  readTables,
  removal,
  type Rule,
  type Tables,
} from "./rule_tables.ts";

/** The host's address on a bridge. */
export const gatewayOf = ({ subnet }: BridgeNetwork): string => subnet.replace(/0\/24$/, "1");

function rulesOf(network: BridgeNetwork, options: RuleOptions): Rule[] {
  const { resolver, filtered } = options;
  const { bridge, subnet, internal, walled } = network;
  const rule = ruleOn(network);
  const ask = (table: "mangle" | "filter", protocol: string): Rule =>
    rule(
      table,
      `${table === "mangle" ? "host-" : ""}dns-${protocol}`,
      `INPUT -i ${bridge} -d ${gatewayOf(network)} -p ${protocol} --dport 53 -j ACCEPT`,
      true,
    );
  const out = `POSTROUTING -s ${subnet} ! -o ${bridge} ! -d 224.0.0.0/4 -j MASQUERADE`;
  return [
    ...(internal || walled ? [] : [rule("nat", "out", out)]),
    // For a published port at 127.0.0.1: the answer has to return through the host.
    rule("nat", "loopback", `POSTROUTING -s 127.0.0.0/8 -d ${subnet} -j MASQUERADE`),
    // Likewise where a container asks for a port that its own network publishes.
    rule(
      "nat",
      "hairpin",
      `POSTROUTING -s ${subnet} -d ${subnet} -m conntrack --ctstate DNAT -j MASQUERADE`,
    ),
    // Routing to loopback is enabled for the rule "loopback"; its answers still carry the bridge's address
    // here.
    rule("raw", "guard", `PREROUTING -i ${bridge} -d 127.0.0.0/8 -j DROP`),
    // A packet from the bridge with a source outside its network is forged.
    rule("mangle", "source", `PREROUTING -i ${bridge} ! -s ${subnet} -j DROP`),
    ...dropsOf(network, options),
    ...(internal && resolver ? [ask("mangle", "udp"), ask("mangle", "tcp")] : []),
    ...(resolver && !walled ? [ask("filter", "udp"), ask("filter", "tcp")] : []),
    ...(filtered ? throughOf(network) : []),
  ];
}

const familyRules = (family: Family, network: BridgeNetwork, options: RuleOptions) =>
  family === 6 ? rules6Of(network, options) : rulesOf(network, options);

/** Input for iptables-restore that adds the missing rules; empty where none is missing. */
export function missingRules(
  tables: Tables,
  network: BridgeNetwork,
  { family = 4, ...options }: Omit<RuleOptions, "filtered"> & { family?: Family } = {},
): string {
  const filtered = forwardingFiltered(tables);
  return missingOf(tables, familyRules(family, network, { ...options, filtered }));
}

/**
 * Input for iptables-restore that removes rules of internal networks from other ones, and the reverse, and rules about
 * bridges that are gone.
 */
export function staleRules(
  tables: Tables,
  network: BridgeNetwork,
  { family = 4, beyond }: Pick<RuleOptions, "beyond"> & { family?: Family } = {},
): string {
  const marks = (one: BridgeNetwork) =>
    familyRules(family, one, { resolver: true, beyond }).map(({ mark }) => mark);
  const wanted = new Set(marks(network));
  const other = new Set(marks({ ...network, internal: !network.internal }));
  const ours = markOf(network.bridge, BEYOND);
  return removal(
    tables,
    (mark) => (other.has(mark) || mark.startsWith(ours)) && !wanted.has(mark),
  );
}

/** Input for iptables-restore that removes all rules of a network. */
export const presentRules = (tables: Tables, { bridge }: Pick<BridgeNetwork, "bridge">): string =>
  removal(tables, (text) => text.startsWith(markOf(bridge, "")));

const SET_UP = "Cannot set up networking";
/** Milliseconds for which a crowd that is attached at once relies on one look. */
const LOOKED = 1000;

export class BridgeRules {
  /** Makes reading and then changing the rules one step. */
  #lock = new Mutex();
  #options: { resolver?: boolean };
  /** Of each bridge: for what kind of network its rules were last there, and when. */
  #looked = new Map<string, { kind: string; at: number }>();

  /** `resolver`: the host answers the containers' DNS on the bridge. */
  constructor(options: { resolver?: boolean } = {}) {
    this.#options = options;
  }

  /**
   * Adds the network's missing rules, for instance after a flush. Where no rule is missing, this runs one process
   * for each family. What was there a second ago counts as there.
   */
  ensure(network: BridgeNetwork, signal?: AbortSignal): Promise<void> {
    const { bridge, internal, walled, subnet6 } = network;
    const kind = [internal, walled, subnet6].join();
    return this.#lock.run(async () => {
      const at = performance.now();
      const last = this.#looked.get(bridge);
      if (last?.kind === kind && at - last.at < LOOKED) return;
      await this.#ensure(4, network, signal);
      if (subnet6) await this.#ensure(6, network, signal);
      this.#looked.set(bridge, { kind, at });
    });
  }

  async #ensure(family: Family, network: BridgeNetwork, signal?: AbortSignal): Promise<void> {
    const tables = await readTables(family, { signal });
    const beyond = bridgePatterns();
    const missing = missingRules(tables, network, { ...this.#options, family, beyond });
    await applyRules(family, missing, SET_UP);
    await applyRules(family, staleRules(tables, network, { family, beyond }), SET_UP);
  }

  /** Idempotent. `both`: it may have rules of IPv6 too. */
  remove(network: Pick<BridgeNetwork, "bridge">, { both = false } = {}): Promise<void> {
    return this.#lock.run(async () => {
      this.#looked.clear();
      for (const family of both ? [4, 6] as const : [4] as const) {
        await applyRules(family, presentRules(await readTables(family), network), SET_UP);
      }
    });
  }
}
