/** Instances that an apply could not remove, as its engine was away: removed once the engine is there. */
import type { Deployment } from "./deployment.ts";

/** Milliseconds between two tries. */
const AGAIN = 2000;

export class Leftovers {
  #timers = new Map<Deployment, ReturnType<typeof setTimeout>>();
  #locked: (deployment: Deployment, work: () => Promise<void>) => Promise<void>;

  /** `locked`: runs the work with the deployment's lock. */
  constructor(locked: (deployment: Deployment, work: () => Promise<void>) => Promise<void>) {
    this.#locked = locked;
  }

  /** `done`: called, with the lock, when none is left. */
  take(deployment: Deployment, done: () => Promise<void>): void {
    if (leftOf(deployment).length === 0) return;
    clearTimeout(this.#timers.get(deployment));
    const timer = setTimeout(() => {
      this.#locked(deployment, async () => {
        // A later apply may have taken its turn, and left others.
        if (this.#timers.get(deployment) !== timer) return;
        this.#timers.delete(deployment);
        await removeLeft(deployment);
        if (leftOf(deployment).length > 0) return this.take(deployment, done);
        await done();
      }).catch(() => this.take(deployment, done));
    }, AGAIN);
    this.#timers.set(deployment, timer);
  }

  stop(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}

/** Where no roll-out is under way. */
const leftOf = ({ instances }: Deployment) => instances.filter((one) => !one.ready);

/** Removes them as far as that is possible now. */
export async function removeLeft(deployment: Deployment): Promise<void> {
  const left = leftOf(deployment);
  const results = await Promise.allSettled(left.map((one) => one.remove()));
  deployment.drop(left.filter((_, index) => results[index].status === "fulfilled"));
}
