/** Servers beside each other: rates, CPU seconds and latencies of the same load, in turns. */
import { median } from "./measure.ts";
import type { Place } from "./registry_image.ts";
import type { Outcome, Tls } from "./registry_load.ts";

export interface Target extends Place {
  name: string;
  /** It is docker-registry, which lays out its store in its own way. */
  isPeer?: boolean;
  pid: number;
  /** Absent: plain HTTP. */
  tls?: Tls;
  /** Folder that holds its store. */
  data: string;
}

export type Work = (target: Target) => Promise<Outcome>;

const ROUNDS = Number(Deno.env.get("SVC_BENCH_ROUNDS") ?? 3);
const TICKS = 100;

export async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await Deno.readTextFile(`/proc/${pid}/stat`)).replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

interface Figures {
  rate: number;
  cpu: number;
  p99: number;
}

/** `rate` of an outcome, higher is better; `per` divides the CPU seconds. */
export async function compare(
  title: string,
  unit: string,
  targets: Target[],
  work: Work,
  { rate, per, rounds = ROUNDS }: {
    rate: (outcome: Outcome) => number;
    per: { name: string; of: (outcome: Outcome) => number };
    rounds?: number;
  },
): Promise<void> {
  const all = targets.map((): Figures[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const index of targets.keys()) {
      const at = (index + round) % targets.length;
      const before = await cpuSeconds(targets[at].pid);
      const outcome = await work(targets[at]);
      const cpu = (await cpuSeconds(targets[at].pid) - before) / per.of(outcome);
      all[at].push({ rate: rate(outcome), cpu, p99: outcome.p99 });
    }
  }
  const middle = all.map((list): Figures => ({
    rate: median(list.map((f) => f.rate)),
    cpu: median(list.map((f) => f.cpu)),
    p99: median(list.map((f) => f.p99)),
  }));
  const peer = all[all.length - 1];
  // Of each round by itself: a busy moment of the machine meets both.
  const ratio = (own: Figures[], of: (figures: Figures) => number) =>
    median(own.map((figures, round) => of(figures) / of(peer[round]))).toFixed(2);
  console.log(`\n${title} (${rounds} rounds, medians)`);
  for (const [index, own] of middle.entries()) {
    const ratios = index === middle.length - 1
      ? ""
      : `  ${ratio(all[index], (f) => f.rate)}x rate, ${ratio(all[index], (f) => f.cpu)}x CPU`;
    const p99 = own.p99 > 0 ? `  p99 ${own.p99.toFixed(1)} ms` : "";
    console.log(
      `  ${targets[index].name.padEnd(16)} ${own.rate.toFixed(0).padStart(7)} ${unit}  ` +
        `${own.cpu.toPrecision(3)} CPU s/${per.name}${p99}${ratios}`,
    );
  }
}

export const perSecond = (outcome: Outcome) => outcome.requests / (outcome.ms / 1000);
export const megabytes = (outcome: Outcome) => outcome.bytes / 1e6 / (outcome.ms / 1000);
export const GIB = { name: "GiB", of: (outcome: Outcome) => outcome.bytes / 2 ** 30 };
export const THOUSAND = { name: "1000", of: (outcome: Outcome) => outcome.requests / 1000 };
