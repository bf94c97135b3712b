/** Waits until a new container can be relied on. */
import { sleep } from "../../../../lib/base/sleep.ts";
import { type Failed, failure } from "../../../../lib/deploy/failure.ts";
import { type Inspected, lastProbe, runs } from "./inspect.ts";

/** Milliseconds that a container without a health check has to run: a first one, and one that replaces another. */
export const FIRST_WINDOW = 100;
export const REPLACE_WINDOW = 1000;
/** Milliseconds between looks. */
const SOON = 20;
const SELDOM = 250;

export interface TrialOptions extends Failed {
  /** What the container is now; undefined: it is gone. */
  look: () => Promise<Inspected | undefined>;
  /** A task that ends with 0 has done its work. */
  mayEnd: boolean;
  window: number;
  /**
   * The engine starts it again where it ends: the exit code of its last end. Absent: it does not, or it may have
   * been started again before.
   */
  lastExit?: () => Promise<number | undefined>;
  signal?: AbortSignal;
}

/** Undefined: it is up. Else the milliseconds until the next look. Throws where it has failed. */
async function look(
  found: Inspected | undefined,
  ran: number,
  trial: TrialOptions,
): Promise<number | undefined> {
  if (!found) throw await failure(trial, "was removed");
  const { State } = found;
  if (trial.lastExit && found.RestartCount > 0) {
    throw await failure(trial, `exited with code ${await trial.lastExit() ?? State.ExitCode}`);
  }
  if (!runs(found)) {
    if (State.ExitCode === 0 && trial.mayEnd && !State.Restarting) return undefined;
    const why = State.OOMKilled ? "it used more memory than it may" : State.Error;
    throw await failure(trial, `exited with code ${State.ExitCode}${why ? ` (${why})` : ""}`);
  }
  const health = State.Health?.Status ?? "none";
  if (health === "healthy") return undefined;
  if (health === "unhealthy") {
    throw await failure(trial, `is unhealthy: its last health check ${lastProbe(found)}`);
  }
  if (health === "starting") return Math.min(SELDOM, Math.max(SOON, ran / 10));
  return ran >= trial.window ? undefined : Math.min(SELDOM, Math.max(SOON, trial.window - ran));
}

/** Resolves with what runs. Throws `deploy_failed` with the last log lines. */
export async function settled(trial: TrialOptions): Promise<Inspected> {
  const began = performance.now();
  for (;;) {
    trial.signal?.throwIfAborted();
    const found = await trial.look();
    const wait = await look(found, performance.now() - began, trial);
    if (wait === undefined) return found!;
    await sleep(wait, trial.signal);
  }
}
