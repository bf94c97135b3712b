/** The state of an instance: one value, and its transitions. */
import type { InstanceChange } from "../../api/deployment.ts";
import { LONGEST_DELAY, type RestartRule, Restarts } from "../restarts.ts";
import { runTime } from "../run_time.ts";
import type { ContainerExit, ProcessIdentity } from "./engine.ts";
import type { HealthMonitor } from "../health.ts";
import type { InstanceRecord } from "./record.ts";

/** The exit code that stands for a restart that failed to start. */
const FAILED_START = 125;
/** The exit code that stands for one that nobody knows. */
const UNKNOWN = 255;

export interface Run {
  process: ProcessIdentity;
  /** RFC 3339. */
  startedAt: string;
  /** Present where the instance has a health check. */
  health?: HealthMonitor;
  /** Its processes are frozen. */
  paused: boolean;
  /** Milliseconds that it runs by now. */
  ran: () => number;
  /** Resolves with the exit code. */
  ended: PromiseWithResolvers<number>;
}

export interface End {
  code: number;
  startedAt?: string;
  finishedAt: string;
  /** A further explanation of the end. */
  message?: string;
  /** Milliseconds that it ran, where this process saw it; else the times tell. */
  ran?: number;
}

export type LifeState =
  /** The instance has not run yet. */
  | { is: "made" }
  /**
   * `trial`: its end concerns only the caller who waits for it; `kept`: the restart policy follows its end;
   * `stopping`: no restart follows.
   */
  | { is: "running"; mode: "trial" | "kept" | "stopping"; run: Run }
  /** Ended by itself. `trial`: the restart policy has not decided yet; `over`: no restart follows. */
  | { is: "ended"; mode: "trial" | "over"; end: End }
  /** Waits for a restart. `due`: the time of the restart, in milliseconds since 1970. */
  | { is: "waiting"; due: number; end: End }
  /** Stopped on purpose. */
  | { is: "stopped"; end?: End };

export interface LifeOptions extends RestartRule {
  /** Starts the instance again; an error counts as another failed run. */
  restart: () => Promise<void>;
  /** Called with each change of state. */
  tell: (change: InstanceChange) => void;
  /** A clock that nobody sets; default: this process's own. */
  now?: () => number;
}

/** The part of the state that is on record. */
type LifeRecord = Pick<
  InstanceRecord,
  | "process"
  | "paused"
  | "restarts"
  | "attempts"
  | "due"
  | "startedAt"
  | "finishedAt"
  | "exitCode"
  | "message"
>;

const ranFor = ({ startedAt, finishedAt, ran }: End): number =>
  ran ??
    (startedAt === undefined ? 0 : Math.max(0, Date.parse(finishedAt) - Date.parse(startedAt)));

export class Life {
  #options: LifeOptions;
  #state: LifeState;
  /** Restarts since the instance was made. */
  #restarts: number;
  readonly #policy: Restarts;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #restarted: Promise<void> = Promise.resolve();

  /** Takes the recorded state. Whether the instance still runs is told by {@linkcode began} or {@linkcode ended}. */
  constructor(options: LifeOptions, record: LifeRecord) {
    this.#options = options;
    this.#policy = new Restarts(options, record.attempts);
    this.#restarts = record.restarts;
    const { exitCode: code, startedAt, finishedAt = new Date().toISOString(), message, due } =
      record;
    if (code === undefined) this.#state = { is: "made" };
    else {
      const end = { code, startedAt, finishedAt, message };
      // Its timer begins with `keep`.
      this.#state = due === undefined
        ? { is: "ended", mode: "trial", end }
        : { is: "waiting", due, end };
    }
  }

  get state(): LifeState {
    return this.#state;
  }

  get run(): Run | undefined {
    return this.#state.is === "running" ? this.#state.run : undefined;
  }

  get end(): End | undefined {
    return "end" in this.#state ? this.#state.end : undefined;
  }

  /** Resolves when the restart that was waited for has been tried. */
  get restarted(): Promise<void> {
    return this.#restarted;
  }

  get record(): LifeRecord {
    const { run, end, state } = this;
    return {
      restarts: this.#restarts,
      ...(this.#policy.attempts > 0 && { attempts: this.#policy.attempts }),
      ...(state.is === "waiting" && { due: state.due }),
      ...(run && { process: run.process, startedAt: run.startedAt }),
      ...(run?.paused && { paused: true }),
      ...(end && {
        exitCode: end.code,
        startedAt: end.startedAt,
        finishedAt: end.finishedAt,
        message: end.message,
      }),
    };
  }

  /** A run has begun: kept where the restart policy started it, else on trial. */
  began(run: Omit<Run, "ended" | "paused" | "ran">): void {
    const mode = this.#state.is === "waiting" ? "kept" : "trial";
    const ran = runTime(run.startedAt, this.#options.now);
    this.#become({
      is: "running",
      mode,
      run: { ...run, ran, paused: false, ended: Promise.withResolvers() },
    });
    run.health?.start();
  }

  /** The run has ended, possibly before this server looked. */
  ended({ code, at, oom }: ContainerExit, startedAt = this.run?.startedAt): void {
    const message = oom ? "it used more memory than its limit" : undefined;
    const { run } = this;
    const end: End = { code, startedAt, finishedAt: at.toISOString(), message, ran: run?.ran() };
    run?.health?.stop();
    const mode = this.#state.is === "running" ? this.#state.mode : "trial";
    if (mode === "trial") this.#become({ is: "ended", mode, end });
    else if (mode === "kept") this.#follow(end, { code, ran: ranFor(end) });
    else this.#become({ is: "stopped", end });
    if (!run) return;
    if (oom) this.#options.tell({ type: "oom" });
    this.#options.tell({ type: "died", exitCode: code });
    run.ended.resolve(code);
  }

  /** It has ended while nobody looked; where the exit code is unknown, the recorded end stays. */
  foundEnded(exit: ContainerExit | undefined, startedAt: string | undefined): void {
    const { end } = this;
    // The same end may be told again.
    if (end && (!exit || exit.at.toISOString() === end.finishedAt)) return;
    this.ended(exit ?? { code: UNKNOWN, at: new Date() }, startedAt);
  }

  /** The run's processes were frozen, or let go on; a frozen instance is not probed. */
  froze(frozen: boolean): void {
    const { run } = this;
    if (!run) return;
    run.paused = frozen;
    run.health?.suspend(frozen);
  }

  /** From now on the restart policy follows every end, also one that happened on trial. */
  keep(): void {
    const state = this.#state;
    if (state.is === "waiting" && this.#timer === undefined) return this.#wait(state);
    if (!("mode" in state) || state.mode !== "trial") return;
    if (state.is === "running") this.#become({ ...state, mode: "kept" });
    else this.#follow(state.end, { code: state.end.code, ran: ranFor(state.end) });
  }

  /** Later ends follow this rule. */
  follow(rule: RestartRule): void {
    this.#policy.rule = rule;
  }

  /** No restart follows any more. A restart that is already under way may still begin a run. */
  halt(): void {
    this.#policy.reset();
    const state = this.#state;
    this.run?.health?.stop();
    if (state.is === "running") this.#become({ ...state, mode: "stopping" });
    else if (state.is !== "made") this.#become({ is: "stopped", end: state.end });
  }

  #become(state: LifeState): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#state = state;
  }

  #follow(end: End, run: { code: number; ran: number }): void {
    const delay = this.#policy.next(run);
    if (delay === undefined) return this.#become({ is: "ended", mode: "over", end });
    this.#wait({ is: "waiting", due: Date.now() + delay, end });
  }

  #wait(waiting: Extract<LifeState, { is: "waiting" }>): void {
    const { due, end } = waiting;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#become(waiting);
    this.#restarted = promise;
    // The clock may have been set back since the time was written down.
    const left = Math.min(LONGEST_DELAY, Math.max(0, due - Date.now()));
    this.#timer = setTimeout(() => {
      this.#restarts++;
      this.#options.restart().catch((error) => {
        const failed = { ...end, message: (error as Error).message };
        if (this.#state !== waiting) return;
        this.#follow(failed, { code: FAILED_START, ran: 0 });
        // A failed start causes no event of its own: it is reported when no further restart follows.
        const over = !("due" in this.#state);
        if (over) this.#options.tell({ type: "died", exitCode: FAILED_START });
      }).finally(resolve);
    }, left);
  }
}
