/** `svc compose top` and `stats`: what containers do and use, in docker compose's columns. */
import { renderTable } from "../../base/table.ts";
import { listProcesses } from "../../client/workloads.ts";
import { containersOf, isUp } from "../../compose/state.ts";
import type { Invocation } from "../command.ts";
import type { NO_OPTIONS } from "../options.ts";
import type { StatsLook } from "../stats.ts";
import type { Sample } from "../stats_follow.ts";
import { STATS_OPTIONS as STATS } from "../workload_options.ts";
import { delegate } from "./delegate.ts";
import { binarySize, decimalSize } from "./human.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { STATS_OPTIONS } from "./options.ts";
import { chosen, openSession } from "./session.ts";

export const top = {
  async run(call: ProjectInvocation & Invocation<typeof NO_OPTIONS>): Promise<number> {
    const { io, positionals } = call;
    const session = await openSession(call);
    const states = chosen(session, positionals).filter(({ status }) => status.instances.some(isUp));
    let columns: string[] = [];
    const rows: string[][] = [];
    for (const state of states) {
      const numbers = new Map(containersOf(state).map((one) => [one.instance.id, one.number]));
      for (const list of await listProcesses(session.client, state.status.name)) {
        columns = [...columns, ...list.titles.filter((title) => !columns.includes(title))];
        for (const row of list.processes) {
          const cells = columns.map((title) => row[list.titles.indexOf(title)] ?? "");
          rows.push([state.service, String(numbers.get(list.instance) ?? ""), ...cells]);
        }
      }
    }
    if (rows.length === 0) return 0;
    const whole = rows.map((row) => [...row, ...Array(columns.length + 2 - row.length).fill("")]);
    await io.stdout.write(
      renderTable(["SERVICE", "#", ...columns], whole, { gap: 2, narrowest: 4 }),
    );
    return 0;
  },
};

const percent = (value: number | undefined) => value === undefined ? "--" : `${value.toFixed(2)}%`;
const pair = (a: number | undefined, b: number | undefined) =>
  `${decimalSize(a ?? 0)} / ${decimalSize(b ?? 0)}`;

/** docker's cells, by its names in JSON. */
function cellsOf(sample: Sample, names: ReadonlyMap<string, string>) {
  const { instance, cpuPercent, memory, memoryLimit, processes } = sample;
  return {
    ID: instance,
    Name: names.get(instance) ?? instance,
    CPUPerc: percent(cpuPercent),
    MemUsage: `${binarySize(memory)} / ${
      memoryLimit === undefined ? "--" : binarySize(memoryLimit)
    }`,
    MemPerc: percent(memoryLimit === undefined ? undefined : memory / memoryLimit * 100),
    NetIO: pair(sample.received, sample.sent),
    BlockIO: pair(sample.blockRead, sample.blockWritten),
    PIDs: String(processes),
  };
}

function dockerLook(names: ReadonlyMap<string, string>): StatsLook {
  return {
    headers: [
      ...["CONTAINER ID", "NAME", "CPU %", "MEM USAGE / LIMIT", "MEM %"],
      ...["NET I/O", "BLOCK I/O", "PIDS"],
    ],
    row: (sample) => Object.values(cellsOf(sample, names)),
    json: (sample) => cellsOf(sample, names),
  };
}

export const stats = {
  async run(call: ProjectInvocation & Invocation<typeof STATS_OPTIONS>): Promise<number> {
    const { values, positionals } = call;
    const session = await openSession(call);
    const states = chosen(session, positionals).filter(({ status }) => status.instances.some(isUp));
    // Without names all deployments of the server would be shown.
    if (states.length === 0) return 0;
    const names = new Map(
      states.flatMap(containersOf).map(({ name, instance }) => [instance.id, name]),
    );
    const { showStats } = await import("../stats.ts");
    const look = dockerLook(names);
    const shown = values.format === "json" ? "json" as const : values.output;
    return await delegate({ ...call, values: { ...values, output: shown } }, {
      module: { run: (invocation) => showStats(invocation, look) },
      options: STATS,
      connection: session.connection,
      args: [
        ...(values.noStream ? ["--no-stream"] : []),
        ...states.map(({ status }) => status.name),
      ],
    });
  },
};
