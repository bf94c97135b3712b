/** `svc daemon status`: what the agent holds. */
import { openAgent } from "../../agent/client.ts";
import type { HeldStatus } from "../../agent/protocol.ts";
import { formatAge, renderTable } from "../../base/table.ts";
import type { Invocation } from "../command.ts";

const HEADERS = ["PROJECT", "NAME", "KIND", "STATE", "SINCE", "SERVER", "HOLDS"];

function rowOf({ project, name, kind, state, since, server, holds }: HeldStatus): string[] {
  const age = formatAge(Date.now() - Date.parse(since));
  return [project ?? "", name, kind, state, age, server, holds.join(", ")];
}

export async function run({ env, io, values }: Invocation): Promise<number> {
  const agent = await openAgent({ env, signal: io.signal });
  const found = await agent.status();
  if (values.output === "json") {
    const { pid, since, agent: build, held = [] } = found ?? {};
    const value = { running: found !== undefined, pid, since, version: build?.version, held };
    await io.stdout.write(JSON.stringify(value) + "\n");
    return 0;
  }
  if (!found) {
    await io.stdout.write("The agent is not running: it holds nothing.\n");
    return 0;
  }
  const { held, pid, since } = found;
  const age = formatAge(Date.now() - Date.parse(since));
  await io.stderr.write(`The agent is process ${pid}, since ${age}.\n`);
  await io.stdout.write(renderTable(HEADERS, held.map(rowOf)));
  for (const { name, detail } of held) {
    if (detail !== undefined) await io.stderr.write(`svc: ${name}: ${detail}\n`);
  }
  return 0;
}
