/**
 * Replaces instances: new containers run beside the old ones until they can be relied on; then the record names
 * them in the old ones' place, and the old ones go.
 */
import type { DeploySpec } from "../../../../lib/api/deploy_spec.ts";
import type { ApplyUntil } from "../../../../lib/api/deployment.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import type { ApplyProgress } from "../../../../lib/deploy/backend.ts";
import { allOrFirstError, type Batch } from "../../../../lib/deploy/roll_out.ts";
import type { Binds } from "./binds.ts";
import { restartPolicy, stopSeconds } from "./container.ts";
import type { Companions } from "./companions.ts";
import type { Deployment } from "./deployment.ts";
import type { ContainerCalls, ContainerRequest, DeployEngine } from "./engine.ts";
import { type Inspected, isActive, runs } from "./inspect.ts";
import type { EngineNamespaces } from "./namespaces.ts";
import { instanceId, type InstanceRecord } from "./record.ts";
import { FIRST_WINDOW, REPLACE_WINDOW, settled } from "./trial.ts";

/** What all containers of one roll-out have in common. */
export type Plan = Omit<ContainerRequest, "replica" | "rehearsal"> & {
  hash: string;
  /** Whether the deployment had no instances before. */
  fresh: boolean;
};

/** An instance on its way in, or one that is there. */
export interface Member extends InstanceRecord {
  found?: Inspected;
}

export interface ReplaceContext {
  onProgress: ApplyProgress;
  signal?: AbortSignal;
  /** "ready": new containers are on trial until they can be relied on; else they count at once. */
  until: ApplyUntil;
}

/** What the record says once the last batch is there. */
export interface Reached {
  warnings: string[];
}

export interface ReplacerParts {
  engine: Pick<DeployEngine, "containers" | "watch" | "readLogs">;
  binds: Binds;
  companions?: Companions;
  namespaces?: EngineNamespaces;
}

/** Attempts to start containers with host ports of the engine's choice. */
const PORT_CHOICES = 5;

/** Callers hold the deployment's lock. */
export class Replacer {
  readonly containers: ContainerCalls;
  readonly #parts: ReplacerParts;

  constructor(parts: ReplacerParts) {
    this.#parts = parts;
    this.containers = parts.engine.containers;
  }

  /** Replaces one batch. Where the new containers do not come up they go, and the old ones are as before. */
  async replace(
    deployment: Deployment,
    batch: Batch<Member>,
    plan: Plan,
    context: ReplaceContext,
    reached?: Reached,
  ): Promise<void> {
    const { made, old } = batch;
    const stopFirst = plan.spec.updateConfig?.order === "stop-first";
    const running = old.filter(({ found }) => found && isActive(found));
    const exclusive = running.length > 0 && holdsAlone(plan.spec, made);
    try {
      const trial = context.until === "ready";
      if (trial && exclusive && !stopFirst) await this.#rehearse(deployment, made, plan, context);
      await this.#bringUp(deployment, made, plan, context, async () => {
        if (exclusive || stopFirst) await this.#yield(deployment, running);
      });
      if (context.until === "created") await this.#agreeOnRestarts(made, plan, context.signal);
      else if (!plan.fixedRestarts) {
        await allOrFirstError(made.map((one) => this.#supervise(one, plan.spec, context.signal)));
      }
    } catch (error) {
      await this.#discard(made);
      if (exclusive || stopFirst) await this.#resume(deployment, running);
      throw error;
    }
    await this.#record(deployment, batch, plan, context, reached);
    if (old.length === 0) return;
    context.onProgress("removing the old instances");
    await this.retire(old.map(({ container }) => container), stopSeconds(deployment.record.spec));
  }

  /**
   * Makes and starts new containers. An engine may choose an open host port when it makes a container and take it when
   * it starts the container: where somebody else has taken it in between, the containers are made anew, with others.
   */
  async #bringUp(
    deployment: Deployment,
    made: readonly Member[],
    plan: Plan,
    context: ReplaceContext,
    yielded: () => Promise<void>,
  ): Promise<void> {
    const choices = plan.spec.ports.some(({ host }) => !host) ? PORT_CHOICES : 1;
    for (let choice = 1;; choice++) {
      // Made before the old ones stop: nobody answers meanwhile.
      await this.#make(made, plan, context);
      if (choice === 1) await yielded();
      try {
        return await this.#begin(deployment, made, plan, context);
      } catch (error) {
        const taken = error instanceof SvcError && error.code === "port_in_use";
        if (!taken || choice === choices) throw error;
      }
      await this.#discard(made);
    }
  }

  /** From here on the new ones are the deployment's. */
  async #record(
    deployment: Deployment,
    { made, old }: Batch<Member>,
    { spec, hash, image: { name: image, digest: imageDigest } }: Plan,
    { until }: ReplaceContext,
    reached?: Reached,
  ): Promise<void> {
    const { record } = deployment;
    record.instances = [
      ...record.instances.filter((one) =>
        !old.some(({ container }) => container === one.container)
      ),
      ...made.map(({ found: _, ...instance }) => instance),
    ];
    record.stopped = until === "created";
    delete record.pending;
    if (reached) {
      const { warnings } = reached;
      const updatedAt = new Date().toISOString();
      Object.assign(record, { spec, hash, warnings, image, imageDigest, updatedAt });
      delete record.error;
    }
    // The engine has not told yet of a container that was only created.
    await deployment.look();
    const { watch } = this.#parts.engine;
    record.instances = record.instances.filter((one) => watch.state(one.container) !== undefined);
    await deployment.save();
  }

  async #make(
    made: readonly Member[],
    plan: Plan,
    { signal }: ReplaceContext,
    rehearsal = false,
  ): Promise<void> {
    // A pull and the batches before have taken their time.
    await this.#parts.binds.recheck(plan.spec, plan.sources);
    await allOrFirstError(made.map(async (one) => {
      const shared = one.roles && await this.#parts.companions?.prepare(plan.spec.name, one);
      const mounted = await this.#parts.companions?.mount(plan.spec.name, one, signal) ?? [];
      const attached = [...plan.attached, ...mounted];
      const request = { ...plan, attached, replica: one.replica, rehearsal, shared };
      one.container = await this.containers.create(request, one.key, signal);
      if (plan.fixedRestarts) this.#parts.engine.watch.onTrial(one.container, true);
    }));
  }

  /** Has the engine start containers again as the spec says, once they have been started. */
  async #agreeOnRestarts(
    made: readonly Member[],
    { spec, fixedRestarts }: Plan,
    signal?: AbortSignal,
  ): Promise<void> {
    for (const { container } of made) this.#parts.engine.watch.onTrial(container, false);
    if (spec.restart === "no" || fixedRestarts) return;
    const policy = restartPolicy(spec);
    await allOrFirstError(
      made.map(({ container }) => this.containers.supervise(container, policy, signal)),
    );
  }

  /** Starts new containers, and waits until they can be relied on. */
  async #begin(
    deployment: Deployment,
    made: readonly Member[],
    plan: Plan,
    { onProgress, signal, until }: ReplaceContext,
  ): Promise<void> {
    if (until === "created") return;
    onProgress(`starting ${made.length} instance${made.length === 1 ? "" : "s"}`);
    await allOrFirstError(made.map(async (one) => {
      await this.containers.begin(one.container, { ...plan, ...one }, signal);
      await this.#enter(plan.spec, one);
    }));
    if (until === "ready") {
      if (plan.spec.healthcheck?.test) onProgress("waiting until healthy");
      const window = plan.fresh ? FIRST_WINDOW : REPLACE_WINDOW;
      await allOrFirstError(
        made.map((one) => this.#settled(deployment, one, plan, window, signal)),
      );
    }
    for (const { container } of made) this.#parts.engine.watch.onTrial(container, false);
    await this.#accompany(deployment, made, signal);
  }

  /** Resolves when everything of the server's runs beside a container that was started. */
  async #enter(spec: DeploySpec, { container, replica, beside }: InstanceRecord): Promise<void> {
    if (!beside) return;
    await this.#parts.namespaces?.enter(container, { deployment: spec.name, spec, replica });
  }

  /** Resolves when the companions serve that these instances have. */
  async #accompany(
    { name }: Deployment,
    instances: readonly InstanceRecord[],
    signal?: AbortSignal,
  ): Promise<void> {
    const { companions } = this.#parts;
    if (!companions) return;
    await allOrFirstError(instances.map((one) => companions.begin(name, one, signal)));
  }

  /** Hands a container over to the engine's supervision. */
  async #supervise({ container }: Member, spec: DeploySpec, signal?: AbortSignal): Promise<void> {
    if (spec.restart === "no") return;
    await this.containers.supervise(container, restartPolicy(spec), signal);
    const found = await this.#parts.engine.watch.look(container, signal);
    if (!found || isActive(found)) return;
    // It ended before the engine knew that it is to be started again.
    if (spec.restart === "on-failure" && found.State.ExitCode === 0) return;
    await this.containers.start(container, signal);
  }

  async #settled(
    deployment: Deployment,
    { container, replica }: InstanceRecord,
    { spec: { restart }, fixedRestarts }: Pick<Plan, "spec" | "fixedRestarts">,
    window: number,
    signal?: AbortSignal,
  ): Promise<void> {
    const { engine } = this.#parts;
    const { watch } = engine;
    const id = instanceId(deployment.name, replica);
    await settled({
      ...{ id, window, signal },
      deployment: deployment.name,
      log: (options) => engine.readLogs(container, id, options),
      mayEnd: restart === "no" || restart === "on-failure",
      look: () => watch.look(container, signal),
      ...(fixedRestarts && { lastExit: () => watch.lastExit(container) }),
    });
  }

  /** Whether the new ones come up, tried without what the old ones hold alone. */
  async #rehearse(
    deployment: Deployment,
    made: readonly Member[],
    plan: Plan,
    context: ReplaceContext,
  ): Promise<void> {
    const tried = made.map((one) => ({
      ...one,
      key: `${one.key}-trial`,
      roles: undefined,
      mounting: undefined,
    }));
    try {
      await this.#make(tried, plan, context, true);
      await this.#begin(deployment, tried, plan, context);
    } finally {
      await this.#discard(tried);
    }
  }

  async #yield(deployment: Deployment, old: readonly Member[]): Promise<void> {
    for (const one of deployment.record.instances) {
      if (old.some(({ container }) => container === one.container)) one.yielding = true;
    }
    await deployment.save();
    // Stopped for others: told as a death, not as a stop that somebody asked for.
    this.#parts.engine.watch.quiet(old.map(({ container }) => container));
    const seconds = stopSeconds(deployment.record.spec);
    await Promise.all(old.map(({ container }) => this.containers.stop(container, seconds)));
  }

  async #resume(deployment: Deployment, old: readonly Member[]): Promise<void> {
    await Promise.allSettled(old.map(({ container }) => this.containers.start(container)));
    for (const one of deployment.record.instances) delete one.yielding;
    await deployment.look();
  }

  /** Removes new containers that did not come up; what cannot be removed now goes with the next start. */
  async #discard(made: readonly Member[]): Promise<void> {
    await Promise.allSettled(
      made.filter(({ container }) => container !== "").map(async ({ container }) => {
        await this.containers.remove(container);
        await this.#parts.namespaces?.leave(container);
      }),
    );
  }

  /** Stops containers in good order and removes them. */
  async retire(containers: readonly string[], seconds: number): Promise<void> {
    this.#parts.engine.watch.quiet(containers);
    await allOrFirstError(containers.map(async (container) => {
      await this.containers.stop(container, seconds);
      await this.#parts.namespaces?.leave(container);
      await this.containers.remove(container);
    }));
  }

  /** Stops instances of the deployment. */
  async halt(
    { record: { spec, instances } }: Deployment,
    some: readonly InstanceRecord[] = instances,
  ): Promise<void> {
    const seconds = stopSeconds(spec);
    await Promise.all(some.map(({ container }) => this.containers.stop(container, seconds)));
  }

  /** Starts the stopped instances of a deployment that is otherwise unchanged. */
  async ensureRunning(
    deployment: Deployment,
    signal?: AbortSignal,
    until: ApplyUntil = "ready",
  ): Promise<void> {
    const { record } = deployment;
    await deployment.look();
    const idle = deployment.instances.filter(({ found }) => found && !runs(found));
    record.stopped = false;
    if (idle.length > 0) record.pending = "start";
    delete record.error;
    await deployment.save();
    try {
      await allOrFirstError(idle.map(async ({ instance }) => {
        await this.containers.start(instance.container, signal);
        await this.#enter(record.spec, instance);
        if (until !== "ready") return;
        await this.#settled(deployment, instance, record, FIRST_WINDOW, signal);
        await this.#accompany(deployment, [instance], signal);
      }));
    } catch (error) {
      record.error = (error as Error).message;
      throw error;
    } finally {
      delete record.pending;
      await deployment.look();
      await deployment.save();
    }
  }
}

/** True where two containers cannot run beside each other: a host port or an address leads to one alone. */
function holdsAlone({ ports, networks }: DeploySpec, made: readonly InstanceRecord[]): boolean {
  const fixed = networks.some(({ ip, ipv6, mac }) => ip || ipv6 || mac);
  return fixed || made.some(({ replica }) => replica === 0) && ports.some(({ host }) => host);
}
