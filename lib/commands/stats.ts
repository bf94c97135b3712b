/** `svc stats [NAME…]`: counters of instances, live on a terminal. */
import { formatBytes } from "../base/bytes.ts";
import { sleep } from "../base/sleep.ts";
import { renderTable } from "../base/table.ts";
import type { InstanceStats } from "../api/workload.ts";
import type { Client } from "../client/client.ts";
import { listDeployments } from "../client/deployments.ts";
import { readStats } from "../client/workloads.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { LiveRegion } from "./live_region.ts";
import { followStats, type Sample, withPercent } from "./stats_follow.ts";
import type { STATS_OPTIONS } from "./workload_options.ts";

type Call = Invocation<typeof STATS_OPTIONS>;

/** How samples are shown. */
export interface StatsLook {
  headers: readonly string[];
  row: (sample: Sample) => string[];
  json: (sample: Sample) => unknown;
}

const HEADERS = [
  "INSTANCE",
  "CPU %",
  "MEMORY / LIMIT",
  "MEM %",
  "NETWORK IN / OUT",
  "BLOCK READ / WRITTEN",
  "PROCESSES",
];
/** Columns of rows that are shown one by one: later ones are not known yet. */
const WIDTHS = [20, 9, 22, 8, 22, 22, 0];

const percent = (value: number | undefined) => value === undefined ? "-" : `${value.toFixed(2)}%`;
const pair = (one: number | undefined, other: number | undefined) =>
  one === undefined || other === undefined ? "-" : `${formatBytes(one)} / ${formatBytes(other)}`;

function rowOf(sample: Sample): string[] {
  const { instance, cpuPercent, memory, memoryLimit, processes } = sample;
  return [
    instance,
    percent(cpuPercent),
    memoryLimit === undefined ? formatBytes(memory) : pair(memory, memoryLimit),
    percent(memoryLimit === undefined ? undefined : memory / memoryLimit * 100),
    pair(sample.received, sample.sent),
    pair(sample.blockRead, sample.blockWritten),
    String(processes),
  ];
}

const OWN: StatsLook = { headers: HEADERS, row: rowOf, json: (sample) => sample };

const lineOf = (row: readonly string[]) =>
  row.map((cell, column) => cell.padEnd(WIDTHS[column])).join(" ").trimEnd() + "\n";

const byInstance = (samples: Iterable<Sample>) =>
  [...samples].sort((a, b) => a.instance < b.instance ? -1 : 1);

const tableOf = ({ headers, row }: StatsLook, samples: Iterable<Sample>) =>
  renderTable(headers, byInstance(samples).map(row));

/** Names of the deployments to look at: the given ones, or all of which an instance runs. */
async function namesOf(client: Client, positionals: string[]): Promise<string[]> {
  if (positionals.length > 0) return positionals;
  const all = await listDeployments(client);
  return all.filter(({ state }) => state === "running").map(({ name }) => name);
}

/** One sample of each running instance. */
async function sample(client: Client, names: readonly string[], instance?: string) {
  const read = (name: string) => Array.fromAsync(readStats(client, name, { instance }));
  return (await Promise.all(names.map(read))).flat();
}

/** Readings over one second: CPU time is told as a counter. */
async function once(
  { io, values, positionals }: Call,
  client: Client,
  look: StatsLook,
): Promise<number> {
  const names = await namesOf(client, positionals);
  const before = new Map<string, InstanceStats>();
  for (const one of await sample(client, names, values.instance)) before.set(one.instance, one);
  if (before.size > 0) await sleep(1000, io.signal);
  const after = (await sample(client, names, values.instance))
    .map((one) => withPercent(one, before.get(one.instance)));
  await io.stdout.write(
    values.output === "json"
      ? byInstance(after).map((one) => JSON.stringify(look.json(one)) + "\n").join("")
      : tableOf(look, after),
  );
  return 0;
}

/** Waits this long for further samples before the screen is drawn again. */
const GATHER_MS = 50;

async function live(
  { io, values, positionals }: Call,
  client: Client,
  look: StatsLook,
): Promise<number> {
  const shown = new Map<string, Sample>();
  await using region = new LiveRegion(io.stdout);
  const draw = () => region.draw(tableOf(look, shown.values()).trimEnd().split("\n"));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const changed = () =>
    timer ??= setTimeout(() => {
      timer = undefined;
      draw();
    }, GATHER_MS);
  const release = io.onResize?.(changed);
  draw();
  try {
    await followStats(client, {
      names: positionals,
      instance: values.instance,
      signal: io.signal,
      onSample: (sample) => {
        shown.set(sample.instance, sample);
        changed();
      },
      onEnd: (instance) => {
        shown.delete(instance);
        changed();
      },
    });
  } finally {
    release?.();
    clearTimeout(timer);
  }
  draw();
  return 0;
}

async function rows(
  { io, values, positionals }: Call,
  client: Client,
  look: StatsLook,
): Promise<number> {
  const json = values.output === "json";
  let written = json ? Promise.resolve() : io.stdout.write(lineOf(look.headers));
  const failed = new AbortController();
  await followStats(client, {
    names: positionals,
    instance: values.instance,
    signal: AbortSignal.any([io.signal, failed.signal]),
    onSample: (sample) => {
      const line = json ? JSON.stringify(look.json(sample)) + "\n" : lineOf(look.row(sample));
      written = io.stdout.write(line);
      written.catch((error) => failed.abort(error));
    },
  });
  await written;
  return 0;
}

export const run = (invocation: Call): Promise<number> => showStats(invocation, OWN);

export async function showStats(invocation: Call, look: StatsLook): Promise<number> {
  const { io, values: { output, stream } } = invocation;
  const client = await connect(invocation);
  if (!stream) return await once(invocation, client, look);
  const fancy = output === "fancy" || output === "auto" && io.stdout.isTerminal;
  return await (fancy ? live : rows)(invocation, client, look);
}
