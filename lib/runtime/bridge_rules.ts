/**
 * The host's rules of a bridge network: one set for the network, so that attaching a container adds none.
 * They lead out (masquerade), let published ports be reached from the host's loopback and from the network
 * itself, keep containers away from services that listen on the host's loopback only, and let them ask
 * the host's resolver on the bridge.
 */
import { Mutex } from "../base/mutex.ts";
import { run, runOk } from "../base/process.ts";
import type { BridgeNetwork } from "./network.ts";

interface Rule {
  table: "nat" | "raw" | "filter";
  /** Told apart by this comment. */
  mark: string;
  /** Without `-A` and comment. */
  rule: string;
  /** Before the others of its chain: they may drop what it lets pass. */
  first?: boolean;
}

const mark = (bridge: string, purpose: string) => `svc:${bridge}:${purpose}`;

/** The host's address on a bridge. */
export const gatewayOf = ({ subnet }: BridgeNetwork): string => subnet.replace(/0\/24$/, "1");

function rulesOf(network: BridgeNetwork, resolver: boolean): Rule[] {
  const { bridge, subnet, internal } = network;
  const rule = (table: Rule["table"], purpose: string, text: string): Rule => ({
    table,
    mark: mark(bridge, purpose),
    rule: text,
  });
  const ask = (protocol: string): Rule => ({
    ...rule(
      "filter",
      `dns-${protocol}`,
      `INPUT -i ${bridge} -d ${gatewayOf(network)} -p ${protocol} --dport 53 -j ACCEPT`,
    ),
    first: true,
  });
  const out = `POSTROUTING -s ${subnet} ! -o ${bridge} ! -d 224.0.0.0/4 -j MASQUERADE`;
  return [
    ...(internal ? [] : [rule("nat", "out", out)]),
    // A published port asked for at 127.0.0.1: the answer has to come back through the host.
    rule("nat", "loopback", `POSTROUTING -s 127.0.0.0/8 -d ${subnet} -j MASQUERADE`),
    // The same where a container asks for a port that its own network publishes.
    rule(
      "nat",
      "hairpin",
      `POSTROUTING -s ${subnet} -d ${subnet} -m conntrack --ctstate DNAT -j MASQUERADE`,
    ),
    // Routing to loopback is on for the first of these; answers still carry the bridge's address here.
    rule("raw", "guard", `PREROUTING -i ${bridge} -d 127.0.0.0/8 -j DROP`),
    ...(resolver ? [ask("udp"), ask("tcp")] : []),
  ];
}

/** What iptables-save says, by table. */
export function parseTables(text: string): Map<string, string[]> {
  const tables = new Map<string, string[]>();
  let lines: string[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("*")) tables.set(line.slice(1), lines = []);
    else if (/^[:-]/.test(line)) lines.push(line);
  }
  return tables;
}

/** True where a rule or policy may drop what crosses a bridge (docker and ufw set such a policy). */
export function forwardingFiltered(tables: Map<string, string[]>): boolean {
  return (tables.get("filter") ?? []).some((line) =>
    /^(:|-A )FORWARD /.test(line) && /\b(DROP|REJECT)\b/.test(line)
  );
}

const hasMark = (line: string, text: string) => line.split(/[\s"]+/).includes(text);

/** Input of iptables-restore that adds what is missing; empty where nothing is. */
export function missingRules(
  tables: Map<string, string[]>,
  network: BridgeNetwork,
  { resolver = false }: { resolver?: boolean } = {},
): string {
  return restoreInput(
    rulesOf(network, resolver).filter(({ table, mark }) =>
      !(tables.get(table) ?? []).some((line) => hasMark(line, mark))
    ).map(({ table, mark, rule, first }): [string, string] => [
      table,
      `${first ? "-I" : "-A"} ${rule.replace(" ", ` -m comment --comment ${mark} `)}`,
    ]),
  );
}

/** Input of iptables-restore that takes away what is there; empty where nothing is. */
export function presentRules(tables: Map<string, string[]>, network: BridgeNetwork): string {
  const marks = rulesOf({ ...network, internal: false }, true).map(({ mark }) => mark);
  return restoreInput(
    [...tables].flatMap(([table, lines]) =>
      lines.filter((line) => line.startsWith("-A ") && marks.some((text) => hasMark(line, text)))
        .map((line): [string, string] => [table, line.replace(/^-A/, "-D")])
    ),
  );
}

function restoreInput(changes: [table: string, change: string][]): string {
  return [...Map.groupBy(changes, ([table]) => table)].map(([table, lines]) =>
    [`*${table}`, ...lines.map(([, change]) => change), "COMMIT", ""].join("\n")
  ).join("");
}

export class BridgeRules {
  /** Looking and then changing is one step. */
  #lock = new Mutex();
  #options: { resolver?: boolean };

  /** `resolver`: the host answers the containers' DNS on the bridge. */
  constructor(options: { resolver?: boolean } = {}) {
    this.#options = options;
  }

  /**
   * Puts the network's rules in place, also where somebody flushed them since. True where forwarding is
   * filtered, so that each container needs an exception. Where nothing is missing this is one process.
   */
  ensure(network: BridgeNetwork, signal?: AbortSignal): Promise<boolean> {
    return this.#lock.run(async () => {
      const tables = await readTables(signal);
      await apply(missingRules(tables, network, this.#options));
      return forwardingFiltered(tables);
    });
  }

  /** True where forwarding is filtered now. */
  async filtered(): Promise<boolean> {
    return forwardingFiltered(await readTables());
  }

  /** Idempotent. */
  remove(network: BridgeNetwork): Promise<void> {
    return this.#lock.run(async () => apply(presentRules(await readTables(), network)));
  }
}

async function readTables(signal?: AbortSignal): Promise<Map<string, string[]>> {
  return parseTables((await run("iptables-save", [], { signal })).stdout);
}

async function apply(input: string): Promise<void> {
  if (input === "") return;
  await runOk("Cannot set up networking", "iptables-restore", ["-w", "--noflush"], {
    stdin: input,
  });
}
