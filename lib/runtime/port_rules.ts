/**
 * The host's published ports: one chain of the nat table, which leads connections to each port to its targets
 * in turns. The chain is written in one step, so no connection meets half of it. Existing connections stay with
 * their target.
 */
import { run, runOk } from "../base/process.ts";
import { parseTables } from "./bridge_rules.ts";

export interface PortTargets {
  hostIP: string;
  hostPort: number;
  protocol: "tcp" | "udp" | "sctp";
  targets: { ip: string; port: number }[];
}

/** The chains that packets to this host pass: from other hosts, and from the host itself. */
const HOOKS = ["PREROUTING", "OUTPUT"];
const EVERYWHERE = ["", "0.0.0.0"];

/** The chain's rules for iptables-restore. IPv6 addresses of the host are left out. */
export function portRules(chain: string, ports: readonly PortTargets[]): string[] {
  return ports.filter(({ hostIP }) => !hostIP.includes(":")).flatMap(
    ({ hostIP, hostPort, protocol, targets }) => {
      const to = EVERYWHERE.includes(hostIP) ? "" : ` -d ${hostIP}`;
      const match = `-A ${chain}${to} -p ${protocol} --dport ${hostPort}`;
      return targets.map(({ ip, port }, index) => {
        // Takes every n-th of the remaining connections; the last target takes all that remain.
        const left = targets.length - index;
        const turn = left > 1 ? ` -m statistic --mode nth --every ${left} --packet 0` : "";
        return `${match}${turn} -j DNAT --to-destination ${ip}:${port}`;
      });
    },
  );
}

/** Input for iptables-restore that replaces the chain's rules; without rules it removes the chain. */
export function portChanges(nat: readonly string[], chain: string, rules: string[]): string {
  const jumps = nat.filter((line) => line.endsWith(` -j ${chain}`));
  const known = nat.some((line) => line.startsWith(`:${chain} `));
  if (rules.length === 0 && !known) return "";
  const changes = rules.length > 0
    ? [
      // Naming the chain creates or empties it.
      `:${chain} - [0:0]`,
      ...rules,
      ...HOOKS.filter((hook) => !jumps.some((line) => line.startsWith(`-A ${hook} `)))
        .map((hook) => `-A ${hook} -m addrtype --dst-type LOCAL -j ${chain}`),
    ]
    : [...jumps.map((line) => line.replace(/^-A/, "-D")), `-F ${chain}`, `-X ${chain}`];
  return ["*nat", ...changes, "COMMIT", ""].join("\n");
}

export class PortRules {
  /** At most 28 characters. */
  readonly chain: string;

  constructor(chain: string) {
    this.chain = chain;
  }

  /** Leads exactly these ports to their targets. Call it once at a time. */
  async set(ports: readonly PortTargets[]): Promise<void> {
    const { stdout } = await run("iptables-save", ["-t", "nat"]);
    const nat = parseTables(stdout).get("nat") ?? [];
    const input = portChanges(nat, this.chain, portRules(this.chain, ports));
    if (input === "") return;
    await runOk("Cannot publish ports", "iptables-restore", ["-w", "--noflush"], { stdin: input });
  }
}
