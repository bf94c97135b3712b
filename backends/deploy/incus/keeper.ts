/**
 * What svc keeps of an instance itself, where Incus does not: how it ended, its health, when it is started again,
 * and what it prints.
 */
import type { InstanceHealth } from "../../../lib/api/deployment.ts";
import type { Logger } from "../../../lib/base/log.ts";
import type { HealthPlan } from "../../../lib/deploy/container_config.ts";
import { sleep } from "../../../lib/base/sleep.ts";
import { HealthMonitor, type ProbeResult } from "../../../lib/deploy/health.ts";
import { type RestartRule, Restarts } from "../../../lib/deploy/restarts.ts";
import { runTime } from "../../../lib/deploy/run_time.ts";
import { FROZEN, type Instance, type InstanceState } from "../../../lib/incus/types.ts";
import type { IncusClient } from "../../../lib/incus/client.ts";
import { Recorder } from "./console.ts";
import { runProbe } from "./exec.ts";
import { readExitCode } from "./exit_code.ts";
import { isRunning, type Known } from "./inspect.ts";
import { HALTED, HEALTH, RESTART } from "./instance.ts";

/** Milliseconds that the end of an instance may take to be told. */
const PAUSE_MS = 5000;
/** Milliseconds until a probe has entered an instance at the latest. */
const ENTRY_MS = 2000;
/** Exit code after SIGKILL. */
const KILLED = 137;

export interface KeeperOptions {
  client: IncusClient;
  name: string;
  /** Where logs are kept. */
  folder: string;
  log: Logger;
  /** Starts the instance again. */
  restart: () => Promise<void>;
  /** Its health has changed. */
  changed: (health: InstanceHealth["state"]) => void;
}

export class Keeper implements Known {
  readonly recorder: Recorder;
  /** The labels by which it is known; they do not change. */
  labels: Readonly<Record<string, string>> = {};
  restarts = 0;
  waiting = false;
  /** A signal of ours ends it, not a stop: its rule is followed. */
  killed = false;
  /** It is ended by force, of which LXC logs nothing. */
  forced = false;
  exitCode = 0;
  finishedAt = "";
  /** The runs whose start, and whose end, was told: Incus tells no end of one that ended before its start was. */
  readonly told = { start: "", end: "" };
  readonly #options: KeeperOptions;
  #monitor: HealthMonitor | undefined;
  /** Resolves when the probe that runs has ended. */
  #probing: Promise<unknown> = Promise.resolve();
  #frozen = false;
  /** When the run began that is seen. */
  #run = "";
  /** Milliseconds that it runs by now. */
  #ran: () => number = () => 0;
  /** The run whose end is known. */
  #over = "";
  #ending: Promise<void> | undefined;
  #rule = "";
  #policy: Restarts | undefined;
  #halted = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.recorder = new Recorder(options);
  }

  /** Its last run was told of as started, is over, and not told as such. */
  get untold(): boolean {
    return this.#over !== "" && this.told.start === this.#over && this.told.end !== this.#over;
  }

  /** The run whose end is known. */
  get over(): string {
    return this.#over;
  }

  get health(): InstanceHealth | undefined {
    return this.#monitor?.report;
  }

  /** Takes the instance as it is now. Resolves when the end of a run that has ended is known. */
  async see(found: Instance): Promise<void> {
    if (this.#closed) return;
    const { config, last_used_at: run, status_code } = found;
    this.#halted = config[HALTED] === "1";
    this.follow(config[RESTART] ?? "");
    if (isRunning(found)) {
      this.#begin(run, config[HEALTH]);
      this.#freeze(status_code === FROZEN);
      return;
    }
    // One that was never started has no end.
    if (run.startsWith("1970-") || run.startsWith("0001-")) return;
    if (this.#over !== run) this.#ending ??= this.#end(run).finally(() => this.#ending = undefined);
    await this.#ending;
  }

  /** The rule by which it is started again, as its configuration has it; empty: none. */
  follow(rule: string): void {
    if (rule === this.#rule) return;
    this.#rule = rule;
    this.#policy = rule === "" ? undefined : new Restarts(JSON.parse(rule) as RestartRule);
  }

  /** It is to stay as it is: no restart follows its end. */
  halt(halted: boolean): void {
    this.#halted = halted;
    clearTimeout(this.#timer);
    this.waiting = false;
    if (halted) this.#policy?.reset();
  }

  #begin(run: string, check: string | undefined): void {
    if (this.#run === run) return;
    this.#run = run;
    this.#ran = runTime(run);
    this.waiting = false;
    this.killed = false;
    this.forced = false;
    clearTimeout(this.#timer);
    this.#monitor?.stop();
    this.recorder.follow(run);
    if (check === undefined) return;
    const { changed } = this.#options;
    this.#frozen = false;
    this.#monitor = new HealthMonitor({
      plan: JSON.parse(check) as HealthPlan,
      probe: (command, signal) => {
        const probed = this.#probe(command, signal);
        this.#probing = probed.catch(() => {});
        return probed;
      },
      onChange: changed,
    });
    this.#monitor.start();
  }

  async #probe(command: string[], signal: AbortSignal): Promise<ProbeResult> {
    const { client, name } = this.#options;
    let code: number | undefined;
    try {
      const result = await runProbe({ client, name, instance: name }, command, signal);
      code = result.code;
      return result;
    } finally {
      if (code !== 0 && !signal.aborted) await this.#ignoreEnd();
    }
  }

  /** A probe that failed for the instance's end says nothing of its health. */
  async #ignoreEnd(): Promise<void> {
    const { client, name } = this.#options;
    // An instance runs, by its status, for a while after its process has ended.
    const found = await client.get<InstanceState>({
      path: `/instances/${name}/state`,
      attempted: `Cannot look at ${name}`,
    }).catch(() => undefined);
    if (found && found.pid > 0) return;
    const monitor = this.#monitor;
    monitor?.suspend(true);
    setTimeout(() => monitor?.suspend(false), PAUSE_MS);
  }

  /**
   * Resolves when no probe enters the instance any more. Incus freezes what it ends by force, and may wait for ever
   * where a process enters it meanwhile. What it gives has it probed again.
   */
  async unprobed(): Promise<() => void> {
    const monitor = this.#monitor;
    monitor?.suspend(true);
    const late = new AbortController();
    await Promise.race([this.#probing, sleep(ENTRY_MS, late.signal).catch(() => {})]);
    late.abort();
    return () => monitor?.suspend(this.#frozen);
  }

  #freeze(frozen: boolean): void {
    if (this.#frozen === frozen) return;
    this.#frozen = frozen;
    this.#monitor?.suspend(frozen);
  }

  async #end(run: string): Promise<void> {
    const { client, name } = this.#options;
    this.#monitor?.stop();
    this.#monitor = undefined;
    // One that ended before it was seen has its times alone.
    const ran = this.#run === run ? this.#ran() : runTime(run)();
    const finishedAt = new Date().toISOString();
    const [code] = await Promise.all([readExitCode(client, name), this.recorder.finish(run)]);
    this.exitCode = code === 0 && this.forced ? KILLED : code;
    this.finishedAt = finishedAt;
    this.#over = run;
    if (!this.#halted) this.#await(code, ran);
  }

  /** Starts it again where its rule says so. */
  #await(code: number, ran: number): void {
    const delay = this.#policy?.next({ code, ran });
    this.waiting = delay !== undefined && !this.#closed;
    if (!this.waiting) return;
    this.#timer = setTimeout(() => {
      this.restarts++;
      this.#options.restart().catch((error) => {
        const { log, name } = this.#options;
        log.warn("an instance was not started again", { instance: name, error });
        if (this.waiting) this.#await(1, 0);
      });
    }, delay);
  }

  /** Lets go of the instance, which runs on. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#monitor?.stop();
    await this.recorder.stop();
  }
}
