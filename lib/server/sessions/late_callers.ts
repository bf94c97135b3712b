/** The callers of sessions, for services that are made before the sessions are. */
import type { SessionCaller, SessionCallers } from "../../wire/attached/callers.ts";

export class LateCallers implements SessionCallers {
  #callers: SessionCallers | undefined;

  /** Until then no deployment has a caller. */
  connect(callers: SessionCallers): void {
    this.#callers = callers;
  }

  of(deployment: string): SessionCaller | undefined {
    return this.#callers?.of(deployment);
  }
}
