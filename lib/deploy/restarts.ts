/** When an instance that ended is started again, where svc does it. */
import type { RestartPolicy } from "../api/deploy_spec.ts";

/** Milliseconds before the first restart, and the most before a later one. */
const FIRST_DELAY = 100;
export const LONGEST_DELAY = 60_000;
/** A run of this many milliseconds counts as recovered: the restart delay begins anew. */
const HEALTHY_RUN = 10_000;

export interface RestartRule {
  policy: RestartPolicy;
  /** The limit of the policy `on-failure`; absent: no limit. */
  maxAttempts?: number;
}

export class Restarts {
  rule: RestartRule;
  /** Attempts since the last run that counts as recovered. */
  #attempts: number;

  /** `attempts`: those before. */
  constructor(rule: RestartRule, attempts = 0) {
    this.rule = rule;
    this.#attempts = attempts;
  }

  get attempts(): number {
    return this.#attempts;
  }

  /** The next restart is the first again. */
  reset(): void {
    this.#attempts = 0;
  }

  /** Milliseconds until the next start after this run; undefined: no restart. Counts the attempt. */
  next({ code, ran }: { code: number; ran: number }): number | undefined {
    if (ran >= HEALTHY_RUN) this.#attempts = 0;
    const { policy, maxAttempts } = this.rule;
    if (policy === "no") return undefined;
    if (policy === "on-failure") {
      if (code === 0) return undefined;
      if (maxAttempts !== undefined && this.#attempts >= maxAttempts) return undefined;
    }
    return Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** Math.min(this.#attempts++, 20));
  }
}
