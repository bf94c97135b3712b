/**
 * Keeps the engine as the records and the policy have it: what no deployment needs goes, what was stopped for a
 * successor that never came runs again, a start or stop that was cut short is carried to its end, and what is no
 * longer permitted is not started again.
 */
import { SvcError } from "../../../../lib/base/errors.ts";
import type { Logger } from "../../../../lib/base/log.ts";
import type { KeyedMutex } from "../../../../lib/base/mutex.ts";
import { amended } from "../../../../lib/deploy/amended.ts";
import { Later } from "../../../../lib/deploy/later.ts";
import { allOrFirstError } from "../../../../lib/deploy/roll_out.ts";
import type { Applier } from "./apply.ts";
import { restartPolicy, stopSeconds } from "./container.ts";
import type { Companions } from "./companions.ts";
import type { Deployment } from "./deployment.ts";
import { type Inspected, isActive } from "./inspect.ts";
import { DEPLOYMENT } from "./labels.ts";
import type { DeployEngine } from "./engine.ts";

export interface UpkeepParts {
  engine: DeployEngine;
  applier: Applier;
  companions?: Companions;
  /** All deployments, by name. */
  deployments: Map<string, Deployment>;
  /** By the deployment's name. */
  locks: KeyedMutex;
  log: Logger;
}

export class Upkeep {
  readonly #parts: UpkeepParts;
  /** By the deployment's name. */
  readonly #leftovers = new Later<string>();
  readonly #networks = new Later<"busy">();

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  /**
   * Once the engine is there: removes what applies that were cut short have left, ends removals, and starts again
   * what was stopped for a successor that never came.
   */
  async lookAfter(): Promise<void> {
    const { engine: { watch }, deployments, locks, log } = this.#parts;
    const labelled = watch.all.map(({ Config }) => Config.Labels?.[DEPLOYMENT] ?? "");
    const names = new Set([...deployments.keys(), ...labelled].filter(Boolean));
    await Promise.all([...names].map(async (name) => {
      try {
        await locks.run(name, () => this.#lookAfter(name));
      } catch (error) {
        log.warn("a deployment was not looked after; that is tried again", {
          deployment: name,
          error,
        });
        this.followUp(name, true);
      }
    }));
    await this.prune();
  }

  /**
   * After a change of the deployment: what of it is left, as the engine refused its removal or tells it late, goes
   * soon. `failed`: the engine may not have told everything yet.
   */
  followUp(name: string, failed: boolean): void {
    const { locks, log } = this.#parts;
    if (!failed && !this.#isUnfinished(name)) return;
    this.#leftovers.take(name, () =>
      locks.run(name, async () => {
        if (!this.#isUnfinished(name)) return true;
        await this.#lookAfter(name);
        log.info("finished an earlier change of a deployment", { deployment: name });
        await this.prune();
        return true;
      }));
  }

  #isUnfinished(name: string): boolean {
    const record = this.#parts.deployments.get(name)?.record;
    return record?.deleting || record?.pending !== undefined ||
      record?.instances.some(({ yielding }) => yielding) ||
      this.#left(name).length > 0;
  }

  stop(): void {
    this.#leftovers.stop();
    this.#networks.stop();
  }

  async #lookAfter(name: string): Promise<void> {
    const { deployments, applier: { replacer } } = this.#parts;
    const deployment = deployments.get(name);
    if (deployment?.record.deleting) return await this.remove(deployment);
    await this.#sweep(name);
    await this.#parts.companions?.settle(name, deployment?.record.instances ?? []);
    if (!deployment) return;
    const { record } = deployment;
    const { pending } = record;
    const waiting = deployment.instances.filter(({ instance: { yielding }, found }) =>
      yielding || pending === "restart" || pending === "start" && found && !isActive(found)
    ).map(({ instance }) => instance);
    if (waiting.length === 0 && pending === undefined) {
      return void await this.#heedPolicy(deployment);
    }
    // The engine may still be at the stop that was asked for: what runs now would end later.
    if (pending === "stop") await replacer.halt(deployment);
    else if (pending !== "start") await replacer.halt(deployment, waiting);
    const permitted = await this.#heedPolicy(deployment);
    for (const one of waiting) delete one.yielding;
    delete record.pending;
    if (permitted && !record.stopped) {
      await Promise.all(waiting.map(({ container }) => replacer.containers.start(container)));
    }
    await deployment.save();
  }

  /**
   * False where the policy no longer permits the deployment. What runs goes on, but the engine is not to start it
   * again, neither after its end nor after a restart of the host. Where it is permitted again, so is that.
   */
  async #heedPolicy(deployment: Deployment): Promise<boolean> {
    const { applier, engine: { fixedRestarts, product }, log } = this.#parts;
    const { name, record, instances } = deployment;
    const refusal = await applier.requireStill(deployment).then(() => undefined, (error) => error);
    const refused = refusal instanceof SvcError && refusal.code === "denied";
    for (const { instance, found } of instances) {
      if (!found || fixedRestarts) continue;
      const { Name = "no" } = found.HostConfig.RestartPolicy ?? {};
      // Of a roll-out that stopped halfway, the spec of the others is not known.
      const spec = amended(record.spec, instance.amended);
      const isOfSpec = instance.hash === record.hash;
      const freed = !refused && Name === "no" && spec.restart !== "no" && isOfSpec;
      if (freed || refused && Name !== "no") {
        const policy = refused ? { Name: "no" } : restartPolicy(spec);
        await applier.replacer.containers.supervise(found.Id, policy);
      }
    }
    if (refused && instances.some(({ found }) => found && isActive(found))) {
      const then = fixedRestarts
        ? `stop it, or ${product} may start it again`
        : "it is not started again";
      log.warn(`a deployment runs that would be refused now: ${then}`, {
        deployment: name,
        error: refusal,
      });
    }
    return !refused;
  }

  /** Containers of the deployment that its record does not name. */
  #left(name: string): Inspected[] {
    const { engine: { watch }, deployments } = this.#parts;
    const known = deployments.get(name)?.record.instances ?? [];
    return watch.all.filter(({ Id, Config }) =>
      Config.Labels?.[DEPLOYMENT] === name && !known.some(({ container }) => container === Id)
    );
  }

  async #sweep(name: string): Promise<void> {
    const { containers } = this.#parts.applier.replacer;
    await allOrFirstError(this.#left(name).map(({ Id }) => containers.remove(Id)));
  }

  /** Removes the networks that no deployment is on; later those that are busy for now. */
  async prune(): Promise<void> {
    if (await this.#prune()) return;
    this.#networks.take("busy", () => this.#prune());
  }

  /** False where one is busy. */
  async #prune(): Promise<boolean> {
    const { engine: { networks }, deployments, log } = this.#parts;
    try {
      const busy = await networks.prune(() =>
        new Set([...deployments.values()].flatMap(({ record, made, joining }) => [
          ...joining,
          ...(made ? networks.namesOf(record.spec) : []),
        ]))
      );
      return busy.length === 0;
    } catch (error) {
      log.warn("an unused network was not removed", { error });
      // An engine that is away is looked after when it is back.
      return error instanceof SvcError && error.code === "unavailable";
    }
  }

  /** The caller holds the deployment's lock. */
  async remove(deployment: Deployment): Promise<void> {
    const { name, record } = deployment;
    const containers = record.instances.map(({ container }) => container);
    await this.#parts.applier.replacer.retire(containers, stopSeconds(record.spec));
    await this.#sweep(name);
    await this.#parts.companions?.settle(name, []);
    this.#parts.deployments.delete(name);
    await deployment.forget();
  }
}
