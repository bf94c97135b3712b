/** Restart policies: whether and when an instance that ended is started again. */
import type { RestartPolicy } from "../api/deploy_spec.ts";

const FIRST_DELAY = 100;
const LONGEST_DELAY = 60_000;
/** A run of this many milliseconds counts as recovered: the delay begins anew. */
const HEALTHY_RUN = 10_000;

export interface Exit {
  code: number;
  /** Milliseconds it ran. */
  ran: number;
}

export interface SupervisorOptions {
  policy: RestartPolicy;
  /** Of `on-failure`; absent: without end. */
  maxAttempts?: number;
  /** Starts the instance again; what it throws counts as another failed run. */
  restart: () => Promise<void>;
  /** Called when no restart follows an exit. */
  onGiveUp?: (exit: Exit) => void;
}

/** Decides after each exit, waits and restarts; one per instance. */
export class Supervisor {
  #options: SupervisorOptions;
  #attempts = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #due: number | undefined;
  /** Changes with each cancel: a restart under way then belongs to the past. */
  #generation = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  /** When the next restart is due (milliseconds since 1970), while one is planned. */
  get due(): number | undefined {
    return this.#due;
  }

  /** Milliseconds until the next start after this exit; undefined: never. Counts the attempt. */
  next(exit: Exit): number | undefined {
    if (exit.ran >= HEALTHY_RUN) this.#attempts = 0;
    const { policy, maxAttempts } = this.#options;
    if (policy === "no") return undefined;
    if (policy === "on-failure") {
      if (exit.code === 0) return undefined;
      if (maxAttempts !== undefined && this.#attempts >= maxAttempts) return undefined;
    }
    return Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** Math.min(this.#attempts++, 20));
  }

  /** The instance ended by itself. */
  exited(exit: Exit): void {
    const delay = this.next(exit);
    if (delay === undefined) {
      this.#options.onGiveUp?.(exit);
      return;
    }
    this.#due = Date.now() + delay;
    const generation = this.#generation;
    this.#timer = setTimeout(() => {
      this.#timer = this.#due = undefined;
      this.#options.restart().catch(() => {
        if (generation === this.#generation) this.exited({ code: 125, ran: 0 });
      });
    }, delay);
  }

  /** A planned restart does not happen; the count of attempts is forgotten. */
  cancel(): void {
    this.#generation++;
    clearTimeout(this.#timer);
    this.#timer = this.#due = undefined;
    this.#attempts = 0;
  }
}
