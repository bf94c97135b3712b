/** What goes from the engine because no deployment needs it: left-over containers, unused networks, whole deployments. */
import type { Logger } from "../../../../lib/base/log.ts";
import type { KeyedMutex } from "../../../../lib/base/mutex.ts";
import { stopSeconds } from "./container.ts";
import type { Deployment } from "./deployment.ts";
import { DEPLOYMENT } from "./labels.ts";
import type { EngineNetworks } from "./networks.ts";
import type { Replacer } from "./replace.ts";
import type { EngineWatch } from "./watch.ts";

export interface UpkeepParts {
  watch: EngineWatch;
  networks: EngineNetworks;
  replacer: Replacer;
  /** All deployments, by name. */
  deployments: Map<string, Deployment>;
  /** By the deployment's name. */
  locks: KeyedMutex;
  log: Logger;
}

export class Upkeep {
  readonly #parts: UpkeepParts;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  /**
   * Once the engine is there: removes what applies that were cut short have left, ends removals, and starts again
   * what was stopped for a successor that never came.
   */
  async lookAfter(): Promise<void> {
    const { watch, deployments, locks } = this.#parts;
    const labelled = watch.all.map(({ Config }) => Config.Labels?.[DEPLOYMENT] ?? "");
    const names = new Set([...deployments.keys(), ...labelled].filter(Boolean));
    await Promise.all([...names].map((name) => locks.run(name, () => this.#lookAfter(name))));
    await this.prune();
  }

  async #lookAfter(name: string): Promise<void> {
    const { deployments, replacer: { containers } } = this.#parts;
    const deployment = deployments.get(name);
    if (deployment?.record.deleting) return await this.remove(deployment);
    await this.#sweep(name);
    if (!deployment) return;
    const waiting = deployment.record.instances.filter(({ yielding }) => yielding);
    if (waiting.length === 0) return;
    for (const one of waiting) delete one.yielding;
    if (!deployment.record.stopped) {
      await Promise.all(waiting.map(({ container }) => containers.start(container)));
    }
    await deployment.save();
  }

  /** Removes containers of the deployment that its record does not name. */
  async #sweep(name: string): Promise<void> {
    const { watch, deployments, replacer: { containers } } = this.#parts;
    const known = deployments.get(name)?.record.instances ?? [];
    const left = watch.all.filter(({ Id, Config }) =>
      Config.Labels?.[DEPLOYMENT] === name && !known.some(({ container }) => container === Id)
    );
    await Promise.all(left.map(({ Id }) => containers.remove(Id)));
  }

  /** Removes the networks that no deployment is on. */
  async prune(): Promise<void> {
    const { networks, deployments, log } = this.#parts;
    try {
      await networks.prune(() =>
        new Set([...deployments.values()].flatMap(({ record, made, joining }) => [
          ...joining,
          ...(made ? networks.namesOf(record.spec) : []),
        ]))
      );
    } catch (error) {
      log.warn("an unused network was not removed", { error });
    }
  }

  /** The caller holds the deployment's lock. */
  async remove(deployment: Deployment): Promise<void> {
    const { name, record } = deployment;
    const containers = record.instances.map(({ container }) => container);
    await this.#parts.replacer.retire(containers, stopSeconds(record.spec));
    await this.#sweep(name);
    this.#parts.deployments.delete(name);
    await deployment.forget();
  }
}
