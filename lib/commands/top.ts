/** `svc top NAME`: the processes of its instances. */
import { renderTable } from "../base/table.ts";
import { listProcesses } from "../client/workloads.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import type { INSTANCE_OPTIONS } from "./workload_options.ts";

export async function run(invocation: Invocation<typeof INSTANCE_OPTIONS>): Promise<number> {
  const { io, values, positionals: [name] } = invocation;
  const found = await listProcesses(await connect(invocation), name, values.instance);
  if (values.output === "json") {
    await io.stdout.write(found.map((list) => JSON.stringify(list) + "\n").join(""));
    return 0;
  }
  for (const [index, { instance, titles, processes }] of found.entries()) {
    const head = found.length > 1 ? `${index > 0 ? "\n" : ""}${instance}:\n` : "";
    const rows = processes.map((row) => titles.map((_, column) => row[column] ?? ""));
    await io.stdout.write(head + renderTable(titles, rows));
  }
  return 0;
}
