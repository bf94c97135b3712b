/** Health checks: probes on a schedule, and the state they give. */
import type { HealthProbe, InstanceHealth } from "../api/deployment.ts";
import type { HealthPlan } from "./container_config.ts";

export type Health = InstanceHealth["state"];

/** How a probe ended. */
export interface ProbeResult {
  code: number;
  /** The end of the probe's output, from both streams. */
  output: string;
}

export interface HealthOptions {
  plan: HealthPlan;
  /** Runs the command to its end; 0 is healthy. The signal aborts at the timeout. */
  probe: (command: string[], signal: AbortSignal) => Promise<ProbeResult>;
  onChange: (health: Health) => void;
  /** False where what is probed has ended, which may be told later. Absent: its end stops the monitor. */
  lives?: () => Promise<boolean>;
}

/** Milliseconds that the end of an instance may take to be told after a probe that failed. */
const ENDING = 100;
/** While an instance starts, probes run at least this often, so that "healthy" is noticed soon. */
const QUICK = 1000;
const FIRST = 100;

/**
 * Probes until stopped. While the instance starts, quick probes look for the first success. Only probes that
 * are due by the plan's own interval, after the start period, count as failures.
 */
export class HealthMonitor {
  #options: HealthOptions;
  #stopped = new AbortController();
  /** Present while suspended. */
  #suspended: PromiseWithResolvers<void> | undefined;
  #suspensions = 0;
  #state: Health = "starting";
  #failures = 0;
  #lastFailure = "";
  #last: HealthProbe | undefined;

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  get state(): Health {
    return this.#state;
  }

  /** Exit code and output of the last failed probe; empty where none failed. */
  get lastFailure(): string {
    return this.#lastFailure;
  }

  /** What `status` tells. */
  get report(): InstanceHealth {
    return {
      state: this.#state,
      failures: this.#failures,
      ...(this.#last && { last: this.#last }),
    };
  }

  start(): void {
    this.#loop().catch(() => {/* only an abort ends the loop early */});
  }

  stop(): void {
    this.#stopped.abort();
    this.#suspended?.resolve();
  }

  /** While suspended nothing is probed, and the state stays as it is. */
  suspend(suspended: boolean): void {
    if (suspended) {
      this.#suspensions++;
      this.#suspended ??= Promise.withResolvers();
    } else {
      this.#suspended?.resolve();
      this.#suspended = undefined;
    }
  }

  async #loop(): Promise<void> {
    const { plan } = this.#options;
    const began = performance.now();
    let counted = began;
    let wait = FIRST;
    while (!this.#stopped.signal.aborted) {
      await this.#sleep(Math.min(wait, plan.interval));
      await this.#suspended?.promise;
      if (this.#stopped.signal.aborted) return;
      const suspensions = this.#suspensions;
      const good = await this.#probe();
      if (this.#stopped.signal.aborted) return;
      // The probe was frozen too: it says nothing.
      if (suspensions !== this.#suspensions) continue;
      const now = performance.now();
      if (good) {
        this.#failures = 0;
        this.#set("healthy");
      } else if (
        this.#state !== "starting" ||
        now - began > plan.startPeriod && now - counted >= plan.interval
      ) {
        counted = now;
        await this.#failed();
      }
      wait = this.#state === "starting" ? Math.min(QUICK, plan.startInterval) : plan.interval;
    }
  }

  /** An instance that ends at this moment is not unhealthy: its probes fail because it ends. */
  async #failed(): Promise<void> {
    if (++this.#failures < this.#options.plan.retries || this.#state === "unhealthy") return;
    await this.#sleep(ENDING);
    if (this.#stopped.signal.aborted || await this.#options.lives?.() === false) return;
    if (!this.#stopped.signal.aborted) this.#set("unhealthy");
  }

  async #probe(): Promise<boolean> {
    const { plan, probe } = this.#options;
    const signal = AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(plan.timeout)]);
    const late = `did not end within ${plan.timeout / 1000} s`;
    try {
      const { code, output } = await probe(plan.command, signal);
      this.#ended(output, signal.aborted ? undefined : code);
      if (code === 0 && !signal.aborted) return true;
      const ended = signal.aborted ? late : `exited with code ${code}`;
      const lines = output.trim().split("\n").map((line) => `  ${line}`).join("\n");
      this.#lastFailure = `${ended} and printed ${output.trim() ? `this:\n${lines}` : "nothing"}`;
    } catch (error) {
      this.#lastFailure = signal.aborted ? late : `could not be run: ${(error as Error).message}`;
      this.#ended(this.#lastFailure);
    }
    return false;
  }

  #ended(output: string, exitCode?: number): void {
    const time = new Date().toISOString();
    this.#last = { time, ...(exitCode !== undefined && { exitCode }), output };
  }

  #set(state: Health): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#options.onChange(state);
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#stopped.signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#stopped.signal.addEventListener("abort", done);
    });
  }
}
