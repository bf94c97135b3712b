/** Paired measuring: the candidates take turns, so that a busy moment of the machine meets all of them. */

export interface Candidate {
  name: string;
  /** One run; what it takes of the time limit is what is measured, unless it gives milliseconds itself. */
  run: () => Promise<number | void>;
  /** Before each run, not measured. */
  before?: () => Promise<void>;
}

export interface Row {
  name: string;
  median: number;
  least: number;
  most: number;
  runs: number;
}

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Milliseconds of each candidate over `rounds` rounds, after `warm` rounds that do not count. */
export async function interleave(
  candidates: Candidate[],
  rounds: number,
  warm = 1,
): Promise<Row[]> {
  const times = candidates.map((): number[] => []);
  for (let round = 0; round < rounds + warm; round++) {
    for (const index of candidates.keys()) {
      // Each goes first as often as the others.
      const at = (index + round) % candidates.length;
      await candidates[at].before?.();
      const start = performance.now();
      const own = await candidates[at].run();
      const took = own ?? performance.now() - start;
      if (round >= warm) times[at].push(took);
    }
  }
  return candidates.map(({ name }, index) => row(name, times[index]));
}

export function row(name: string, times: number[]): Row {
  return {
    name,
    median: median(times),
    least: Math.min(...times),
    most: Math.max(...times),
    runs: times.length,
  };
}

/** A table in which each row is compared to the last one, the peer. */
export function report(title: string, rows: Row[]): void {
  const peer = rows[rows.length - 1];
  console.log(`\n${title}`);
  for (const row of rows) {
    const ratio = row === peer ? "" : `  ${(row.median / peer.median).toFixed(2)}x of ${peer.name}`;
    console.log(
      `  ${row.name.padEnd(24)} median ${row.median.toFixed(1).padStart(8)} ms  ` +
        `(${row.least.toFixed(1)}-${row.most.toFixed(1)}, ${row.runs} runs)${ratio}`,
    );
  }
}

/** Runs a program; throws with its output where it fails. Gives nothing back: what counts is the time. */
export async function silently(
  command: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<void> {
  const output = await new Deno.Command(command, { args, env, stdin: "null" }).output();
  if (output.success) return;
  const text = new TextDecoder();
  throw new Error(
    `${command} ${args.join(" ")} exited with ${output.code}:\n` +
      text.decode(output.stdout) + text.decode(output.stderr),
  );
}

/** Asks until the page is there; milliseconds apart, so that the answer is not waited for. */
export async function firstAnswer(url: string): Promise<void> {
  const until = Date.now() + 30_000;
  for (;;) {
    try {
      const answer = await fetch(url, { signal: AbortSignal.timeout(1000) });
      await answer.body?.cancel();
      if (answer.ok) return;
    } catch (error) {
      if (Date.now() > until) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
