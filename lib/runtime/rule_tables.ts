/**
 * Tables of the host's firewall, read by iptables-save and changed by iptables-restore: which rules are missing,
 * and which are to go. Each rule of svc's has a comment by which it is found again.
 */
import { run, runOk } from "../base/process.ts";

export type Family = 4 | 6;

export interface Rule {
  table: "nat" | "raw" | "mangle" | "filter";
  /** The comment that identifies the rule. */
  mark: string;
  /** The rule without `-A` and comment. */
  rule: string;
  /** Comes before the other rules of its chain, which may drop what it accepts. */
  first?: boolean;
}

export type Tables = Map<string, string[]>;

/** The rules in the output of iptables-save, by table. */
export function parseTables(text: string): Tables {
  const tables: Tables = new Map();
  let lines: string[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("*")) tables.set(line.slice(1), lines = []);
    else if (/^[:-]/.test(line)) lines.push(line);
  }
  return tables;
}

/** True where a rule or policy may drop packets that cross a bridge (docker and ufw set such a policy). */
export function forwardingFiltered(tables: Tables): boolean {
  return (tables.get("filter") ?? []).some((line) =>
    /^(:|-A )FORWARD /.test(line) && /\b(DROP|REJECT)\b/.test(line)
  );
}

/** The comments of a rule's line that are marks of svc's. */
const marksOf = (line: string) => line.split(/[\s"]+/).filter((word) => word.startsWith("svc:"));

/** Input for iptables-restore that adds those of the rules that are missing; empty where none is. */
export function missingOf(tables: Tables, rules: readonly Rule[]): string {
  const missing = rules.filter(({ table, mark }) =>
    !(tables.get(table) ?? []).some((line) => marksOf(line).includes(mark))
  );
  return restoreInput(missing.map(({ table, mark, rule, first }): [string, string] => [
    table,
    `${first ? "-I" : "-A"} ${rule.replace(" ", ` -m comment --comment ${mark} `)}`,
  ]));
}

/** Input for iptables-restore that removes the rules with such a mark. */
export function removal(tables: Tables, isMeant: (mark: string) => boolean): string {
  const gone = (line: string) => line.startsWith("-A ") && marksOf(line).some(isMeant);
  return restoreInput(
    [...tables].flatMap(([table, lines]) =>
      lines.filter(gone).map((line): [string, string] => [table, line.replace(/^-A/, "-D")])
    ),
  );
}

function restoreInput(changes: [table: string, change: string][]): string {
  return [...Map.groupBy(changes, ([table]) => table)].map(([table, lines]) =>
    [`*${table}`, ...lines.map(([, change]) => change), "COMMIT", ""].join("\n")
  ).join("");
}

const program = (family: Family, name: "save" | "restore") =>
  `${family === 6 ? "ip6tables" : "iptables"}-${name}`;

/** `table`: that one alone. Of a family that the host does not have there are none. */
export async function readTables(
  family: Family,
  { table, signal }: { table?: string; signal?: AbortSignal } = {},
): Promise<Tables> {
  const args = table ? ["-t", table] : [];
  return parseTables((await run(program(family, "save"), args, { signal })).stdout);
}

/** `what`: for the error. Nothing is done for no input. */
export async function applyRules(family: Family, input: string, what: string): Promise<void> {
  if (input === "") return;
  await runOk(what, program(family, "restore"), ["-w", "--noflush"], { stdin: input });
}

/** Names of the bridges that have rules, of either family. */
export async function markedBridges(): Promise<string[]> {
  const all = await Promise.all(([4, 6] as const).map((family) => readTables(family)));
  return all.flatMap((tables) => [...tables.values()]).flat().flatMap(marksOf)
    .map((mark) => mark.split(":")[1]);
}
