/** Runs the health checks of an engine that leaves the times of them to others. */
import { parseDuration } from "../../../../lib/base/duration.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import type { Logger } from "../../../../lib/base/log.ts";
import { sleep } from "../../../../lib/base/sleep.ts";
import type { HealthcheckSpec } from "../../../../lib/api/deploy_spec.ts";
import { runTime } from "../../../../lib/deploy/run_time.ts";
import { type Inspected, runs } from "./inspect.ts";
import { PROBES } from "./labels.ts";

/** Milliseconds; Docker's where the spec has none. */
interface Times {
  interval: number;
  startInterval: number;
  startPeriod: number;
}

const INTERVAL_MS = 30_000;
const START_INTERVAL_MS = 5000;
/** A shorter interval would keep the server busy; a longer one is more than a timer takes. */
const LEAST_MS = 10;
const MOST_MS = 2 ** 31 - 1;

/** What a container's label says of its probes. */
export function probeTimes(check: HealthcheckSpec): string {
  const ms = (time: string | undefined, otherwise: number) =>
    time === undefined ? otherwise : parseDuration(time) || otherwise;
  const interval = ms(check.interval, INTERVAL_MS);
  const times: Times = {
    interval,
    startInterval: ms(check.startInterval, START_INTERVAL_MS),
    startPeriod: ms(check.startPeriod, 0),
  };
  return JSON.stringify(times);
}

/** The label's times. Undefined: it is not svc's. A container of before may have an image's label. */
function timesOf(label: string): Times | undefined {
  try {
    const { interval, startInterval, startPeriod } = JSON.parse(label) as Times;
    if (![interval, startInterval, startPeriod].every(Number.isFinite)) return undefined;
    const within = (ms: number) => Math.min(Math.max(ms, LEAST_MS), MOST_MS);
    return { interval: within(interval), startInterval: within(startInterval), startPeriod };
  } catch {
    return undefined;
  }
}

export interface ProbesOptions {
  probe: (container: string, signal: AbortSignal) => Promise<void>;
  state: (container: string) => Inspected | undefined;
  signal: AbortSignal;
  log: Logger;
}

export class Probes {
  readonly #options: ProbesOptions;
  /** Containers with a loop, and the start that it belongs to. */
  readonly #loops = new Map<string, string>();

  constructor(options: ProbesOptions) {
    this.#options = options;
  }

  /** A container as it is now. */
  see(found: Inspected): void {
    const label = found.Config.Labels?.[PROBES];
    const { StartedAt } = found.State;
    if (!label || !runs(found) || this.#loops.get(found.Id) === StartedAt) return;
    const times = timesOf(label);
    if (!times) return;
    this.#loops.set(found.Id, StartedAt);
    this.#run(found.Id, StartedAt, times).catch((error) => {
      if (!this.#options.signal.aborted) this.#options.log.warn("health checks ended", { error });
    }).finally(() => {
      if (this.#loops.get(found.Id) === StartedAt) this.#loops.delete(found.Id);
    });
  }

  async #run(container: string, started: string, times: Times): Promise<void> {
    const { probe, state, signal, log } = this.#options;
    const ran = runTime(started);
    for (let failures = 0; !signal.aborted;) {
      const early = ran() < times.startPeriod &&
        state(container)?.State.Health?.Status !== "healthy";
      await sleep(early ? times.startInterval : times.interval, signal);
      const found = state(container);
      if (!found || !runs(found) || found.State.StartedAt !== started) return;
      // Nothing answers while it is frozen.
      if (found.State.Paused) continue;
      try {
        await probe(container, signal);
        failures = 0;
      } catch (error) {
        if (error instanceof SvcError && ["conflict", "not_found"].includes(error.code)) return;
        if (signal.aborted) return;
        if (failures++ === 0) log.warn("a health check was not run", { container, error });
      }
    }
  }
}
