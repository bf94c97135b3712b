/** Instances that an apply could not remove, as its engine was away: removed once the engine is there. */
import { Later } from "../later.ts";
import type { Deployment } from "./deployment.ts";

export class Leftovers {
  readonly #later = new Later<Deployment>();
  readonly #locked: (deployment: Deployment, work: () => Promise<boolean>) => Promise<boolean>;

  /** `locked`: runs the work with the deployment's lock. */
  constructor(
    locked: (deployment: Deployment, work: () => Promise<boolean>) => Promise<boolean>,
  ) {
    this.#locked = locked;
  }

  /** `done`: called, with the lock, when none is left. */
  take(deployment: Deployment, done: () => Promise<void>): void {
    if (leftOf(deployment).length === 0) return;
    this.#later.take(deployment, (isLatest) =>
      this.#locked(deployment, async () => {
        // A later apply may have taken its turn, and left others.
        if (!isLatest()) return true;
        await removeLeft(deployment);
        if (leftOf(deployment).length > 0) return false;
        await done();
        return true;
      }));
  }

  stop(): void {
    this.#later.stop();
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
