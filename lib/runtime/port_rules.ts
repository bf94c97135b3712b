/**
 * The host's published ports: one chain of the nat table, of each family, which leads connections to each port to
 * its targets in turns. The chain is written in one step, so no connection meets half of it. Existing connections
 * stay with their target.
 */
import { applyRules, type Family, readTables } from "./rule_tables.ts";

export interface PortTargets {
  /** "0.0.0.0": every IPv4 address. "::": every address of both families. */
  hostIP: string;
  hostPort: number;
  protocol: "tcp" | "udp" | "sctp";
  targets: { ip: string; ip6?: string; port: number }[];
}

/** The chains that packets to this host pass: from other hosts, and from the host itself. */
const HOOKS = ["PREROUTING", "OUTPUT"];
const EVERYWHERE = ["", "0.0.0.0", "::"];
/** The kernel leads nothing from there to a bridge: the server itself listens (loopback_ports.ts). */
const LOOPBACK6 = "::1";

/** The chain's rules for iptables-restore, or ip6tables-restore. */
export function portRules(
  chain: string,
  ports: readonly PortTargets[],
  family: Family = 4,
): string[] {
  const six = family === 6;
  return ports.filter(({ hostIP }) => hostIP.includes(":") === six || hostIP === "::").flatMap(
    ({ hostIP, hostPort, protocol, targets }) => {
      if (hostIP === LOOPBACK6) return [];
      const to = EVERYWHERE.includes(hostIP) ? "" : ` -d ${hostIP}`;
      const match = `-A ${chain}${to} -p ${protocol} --dport ${hostPort}`;
      const there = six
        ? targets.flatMap(({ ip6, port }) => ip6 ? `[${ip6}]:${port}` : [])
        : targets.map(({ ip, port }) => `${ip}:${port}`);
      return there.map((target, index) => {
        // Takes every n-th of the remaining connections; the last target takes all that remain.
        const left = there.length - index;
        const turn = left > 1 ? ` -m statistic --mode nth --every ${left} --packet 0` : "";
        return `${match}${turn} -j DNAT --to-destination ${target}`;
      });
    },
  );
}

/** Input for iptables-restore that replaces the chain's rules; without rules it removes the chain. */
export function portChanges(
  nat: readonly string[],
  chain: string,
  rules: string[],
  family: Family = 4,
): string {
  const jumps = nat.filter((line) => line.endsWith(` -j ${chain}`));
  const known = nat.some((line) => line.startsWith(`:${chain} `));
  if (rules.length === 0 && !known) return "";
  const elsewhere = family === 6 ? `! -d ${LOOPBACK6} ` : "";
  const changes = rules.length > 0
    ? [
      // Naming the chain creates or empties it.
      `:${chain} - [0:0]`,
      ...rules,
      ...HOOKS.filter((hook) => !jumps.some((line) => line.startsWith(`-A ${hook} `)))
        .map((hook) => `-A ${hook} ${elsewhere}-m addrtype --dst-type LOCAL -j ${chain}`),
    ]
    : [...jumps.map((line) => line.replace(/^-A/, "-D")), `-F ${chain}`, `-X ${chain}`];
  return ["*nat", ...changes, "COMMIT", ""].join("\n");
}

export class PortRules {
  /** At most 28 characters. */
  readonly chain: string;
  /** Whether the chain of IPv6 has rules; undefined: an earlier server may have left some. */
  #six: boolean | undefined;

  constructor(chain: string) {
    this.chain = chain;
  }

  /** Leads exactly these ports to their targets. Call it once at a time. */
  async set(ports: readonly PortTargets[]): Promise<void> {
    await this.#write(4, portRules(this.chain, ports));
    const six = portRules(this.chain, ports, 6);
    if (six.length === 0 && this.#six === false) return;
    this.#six = undefined;
    await this.#write(6, six);
    this.#six = six.length > 0;
  }

  async #write(family: Family, rules: string[]): Promise<void> {
    const nat = (await readTables(family, { table: "nat" })).get("nat") ?? [];
    const input = portChanges(nat, this.chain, rules, family);
    await applyRules(family, input, "Cannot publish ports");
  }
}
