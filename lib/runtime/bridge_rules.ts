/**
 * The host's firewall rules for a bridge network: one set per network, so that attaching a container adds none.
 * The rules masquerade outgoing traffic and let published ports be reached from the host's loopback and from
 * the network itself. They keep containers from services on the host's loopback and from other networks, and
 * let them ask the host's resolver on the bridge. Packets are dropped in the mangle table: rules of the filter
 * table, which other programs write too, cannot accept them first.
 */
import { Mutex } from "../base/mutex.ts";
import { run, runOk } from "../base/process.ts";
import type { BridgeNetwork } from "./network.ts";

interface Rule {
  table: "nat" | "raw" | "mangle" | "filter";
  /** The comment that identifies the rule. */
  mark: string;
  /** The rule without `-A` and comment. */
  rule: string;
  /** Comes before the other rules of its chain, which may drop what it accepts. */
  first?: boolean;
}

/** Chain of the mangle table for packets that leave one of the networks: no other network accepts them. */
const APART = "SVC-APART";

const mark = (bridge: string, purpose: string) => `svc:${bridge}:${purpose}`;

/** The host's address on a bridge. */
export const gatewayOf = ({ subnet }: BridgeNetwork): string => subnet.replace(/0\/24$/, "1");

function rulesOf(network: BridgeNetwork, resolver: boolean): Rule[] {
  const { bridge, subnet, internal, walled, apart } = network;
  const rule = (table: Rule["table"], purpose: string, text: string): Rule => ({
    table,
    mark: mark(bridge, purpose),
    rule: text,
  });
  const ask = (table: "mangle" | "filter", protocol: string): Rule => ({
    ...rule(
      table,
      `${table === "mangle" ? "host-" : ""}dns-${protocol}`,
      `INPUT -i ${bridge} -d ${gatewayOf(network)} -p ${protocol} --dport 53 -j ACCEPT`,
    ),
    first: true,
  });
  const drop = (purpose: string, match: string) => rule("mangle", purpose, `${match} -j DROP`);
  const unasked = "-m conntrack ! --ctstate RELATED,ESTABLISHED";
  const asks = resolver && !walled;
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
    drop("source", `PREROUTING -i ${bridge} ! -s ${subnet}`),
    // Other networks are reached only at their published ports, as from anywhere else.
    rule("mangle", "leave", `FORWARD -i ${bridge} ! -o ${bridge} -j ${APART}`),
    drop("enter", `${APART} -o ${bridge} -m conntrack ! --ctstate DNAT`),
    ...(apart ? [drop("among", `FORWARD -i ${bridge} -o ${bridge}`)] : []),
    ...(internal
      ? [
        drop("out-of", `FORWARD -i ${bridge} ! -o ${bridge}`),
        drop("into", `FORWARD ! -i ${bridge} -o ${bridge}`),
        // Answers to the host pass, and so do queries to the resolver, which knows that the network is
        // internal.
        drop("host", `INPUT -i ${bridge} ${unasked}`),
        ...(resolver ? [ask("mangle", "udp"), ask("mangle", "tcp")] : []),
      ]
      : []),
    ...(walled
      ? [
        drop("wall-out", `FORWARD -i ${bridge} ! -o ${bridge} ${unasked}`),
        drop("wall-host", `INPUT -i ${bridge} ${unasked}`),
      ]
      : []),
    ...(asks ? [ask("filter", "udp"), ask("filter", "tcp")] : []),
  ];
}

/** The rules in the output of iptables-save, by table. */
export function parseTables(text: string): Map<string, string[]> {
  const tables = new Map<string, string[]>();
  let lines: string[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("*")) tables.set(line.slice(1), lines = []);
    else if (/^[:-]/.test(line)) lines.push(line);
  }
  return tables;
}

/** True where a rule or policy may drop packets that cross a bridge (docker and ufw set such a policy). */
export function forwardingFiltered(tables: Map<string, string[]>): boolean {
  return (tables.get("filter") ?? []).some((line) =>
    /^(:|-A )FORWARD /.test(line) && /\b(DROP|REJECT)\b/.test(line)
  );
}

const hasMark = (line: string, text: string) => line.split(/[\s"]+/).includes(text);

/** Input for iptables-restore that adds the missing rules; empty where none is missing. */
export function missingRules(
  tables: Map<string, string[]>,
  network: BridgeNetwork,
  { resolver = false }: { resolver?: boolean } = {},
): string {
  const missing = rulesOf(network, resolver).filter(({ table, mark }) =>
    !(tables.get(table) ?? []).some((line) => hasMark(line, mark))
  );
  const declared = tables.get("mangle")?.some((line) => line.startsWith(`:${APART} `));
  const declare = missing.length > 0 && !declared;
  return restoreInput([
    ...(declare ? [["mangle", `:${APART} - [0:0]`] as [string, string]] : []),
    ...missing.map(({ table, mark, rule, first }): [string, string] => [
      table,
      `${first ? "-I" : "-A"} ${rule.replace(" ", ` -m comment --comment ${mark} `)}`,
    ]),
  ]);
}

/** Input for iptables-restore that removes rules of internal networks from other ones, and the reverse. */
export function staleRules(tables: Map<string, string[]>, network: BridgeNetwork): string {
  const wanted = new Set(rulesOf(network, true).map(({ mark }) => mark));
  const other = rulesOf({ ...network, internal: !network.internal }, true);
  return removal(tables, other.map(({ mark }) => mark).filter((mark) => !wanted.has(mark)));
}

/** Input for iptables-restore that removes all rules of a network. */
export function presentRules(tables: Map<string, string[]>, network: BridgeNetwork): string {
  const all = [{ internal: true }, { internal: false }, { walled: true }].flatMap((kind) =>
    rulesOf({ ...network, ...kind, apart: true }, true)
  );
  return removal(tables, all.map(({ mark }) => mark));
}

function removal(tables: Map<string, string[]>, marks: string[]): string {
  const gone = (line: string) =>
    line.startsWith("-A ") && marks.some((text) => hasMark(line, text));
  const mangle = tables.get("mangle") ?? [];
  const named = mangle.filter((line) => line.split(" ").includes(APART));
  const last = named.length > 0 && named.every(gone);
  return restoreInput([
    ...[...tables].flatMap(([table, lines]) =>
      lines.filter(gone).map((line): [string, string] => [table, line.replace(/^-A/, "-D")])
    ),
    ...(last ? [["mangle", `-X ${APART}`] as [string, string]] : []),
  ]);
}

function restoreInput(changes: [table: string, change: string][]): string {
  return [...Map.groupBy(changes, ([table]) => table)].map(([table, lines]) =>
    [`*${table}`, ...lines.map(([, change]) => change), "COMMIT", ""].join("\n")
  ).join("");
}

export class BridgeRules {
  /** Makes reading and then changing the rules one step. */
  #lock = new Mutex();
  #options: { resolver?: boolean };

  /** `resolver`: the host answers the containers' DNS on the bridge. */
  constructor(options: { resolver?: boolean } = {}) {
    this.#options = options;
  }

  /**
   * Adds the network's missing rules, for instance after a flush. True where forwarding is filtered, so that
   * each container needs an exception. Where no rule is missing, this runs one process.
   */
  ensure(network: BridgeNetwork, signal?: AbortSignal): Promise<boolean> {
    return this.#lock.run(async () => {
      const tables = await readTables(signal);
      await apply(missingRules(tables, network, this.#options));
      await apply(staleRules(tables, network));
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
