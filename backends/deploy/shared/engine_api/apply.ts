/**
 * Applies a spec. New containers run beside the old ones until they can be relied on; then the record names them
 * in the old ones' place, and the old ones go. A server that ends anywhere leaves the old or the new whole: what
 * the record does not name is removed by the next one.
 */
import type { DeploySpec } from "../../../../lib/api/deploy_spec.ts";
import type { ApplyAction } from "../../../../lib/api/deployment.ts";
import type { ApplyProgress } from "../../../../lib/deploy/backend.ts";
import { type FieldRules, fieldWarnings, refuseIfStrict } from "../../../../lib/deploy/fields.ts";
import { requirePermitted } from "../../../../lib/deploy/privileges.ts";
import {
  allOrFirstError,
  type Batch,
  batchesOf,
  checkTimes,
  stoppedHalfway,
} from "../../../../lib/deploy/roll_out.ts";
import { specHash } from "../../../../lib/deploy/spec_hash.ts";
import { type Lazy, lazy } from "../../../../lib/base/lazy.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { type ServerPlace, serverPlace } from "../../../../lib/docker/own_container.ts";
import type { ImageResolver } from "../../../../lib/oci/resolver.ts";
import type { EngineBehaviour } from "./behaviour.ts";
import { type BindPolicy, Binds, requirePlainMounts } from "./binds.ts";
import { type ContainerRequest, knowsStartInterval, stopSeconds } from "./container.ts";
import { Containers } from "./containers.ts";
import type { Deployment } from "./deployment.ts";
import { DeployImages, type EngineImage } from "./images.ts";
import { type Inspected, isActive, runs } from "./inspect.ts";
import type { EngineNetworks } from "./networks.ts";
import { instanceId, type InstanceRecord } from "./record.ts";
import { FIRST_WINDOW, REPLACE_WINDOW, settled } from "./trial.ts";
import { ensureVolume } from "./volumes.ts";
import type { EngineWatch } from "./watch.ts";

export interface EngineConfig {
  /** SVC_ALLOW_BIND_SOURCES. */
  allowBindSources: readonly string[];
  /** SVC_HOST_PATH_MAP. */
  hostPathMap?: readonly string[];
  /** Kinds of lib/deploy/privileges.ts. */
  allowPrivileged: readonly string[];
  /** SVC_WORKLOAD_PIDS_LIMIT; 0: no limit. */
  pidsLimit: number;
}

export interface ApplierParts {
  client: DockerClient;
  behaviour: EngineBehaviour;
  /** Identity of the server's data directory. */
  server: string;
  config: EngineConfig;
  fields: FieldRules;
  networks: EngineNetworks;
  watch: EngineWatch;
  /** Specs of all deployments. */
  specs: () => readonly DeploySpec[];
}

export interface ApplyContext {
  images: ImageResolver;
  mayPull?: boolean;
  /** The attachments' environment. */
  env: Readonly<Record<string, string>>;
  onProgress: ApplyProgress;
  signal?: AbortSignal;
}

/** What all containers of one roll-out have in common. */
type Plan = Omit<ContainerRequest, "replica" | "rehearsal"> & { hash: string };

/** An instance on its way in, or one that is there. */
interface Member extends InstanceRecord {
  found?: Inspected;
}

const replicaOf = ({ replica }: InstanceRecord) => replica;

export class Applier {
  readonly containers: Containers;
  readonly binds: Binds;
  readonly #parts: ApplierParts;
  readonly #images: DeployImages;
  readonly #place: Lazy<ServerPlace>;

  constructor(parts: ApplierParts) {
    this.#parts = parts;
    this.containers = new Containers(parts.client, parts.watch);
    this.#images = new DeployImages(parts.client);
    this.#place = lazy(() => serverPlace(parts.client, parts.config));
    this.binds = new Binds({
      specs: parts.specs,
      containers: () => {
        parts.watch.requireLive();
        return parts.watch.all;
      },
      policy: () => this.#bindPolicy(),
    });
  }

  async #bindPolicy(): Promise<BindPolicy> {
    const { client, config: { allowBindSources: allowed } } = this.#parts;
    return { allowed, paths: client.local ? (await this.#place.get()).paths : undefined };
  }

  /** The caller holds the deployment's lock. */
  async apply(
    deployment: Deployment,
    spec: DeploySpec,
    context: ApplyContext,
  ): Promise<ApplyAction> {
    const { config, fields, client } = this.#parts;
    const { images, mayPull, env, onProgress, signal } = context;
    requirePermitted(spec, config.allowPrivileged);
    const warnings = fieldWarnings(spec, fields);
    refuseIfStrict(spec, warnings);
    checkTimes(spec);
    using held = await this.binds.hold(spec);
    const { sources } = held;
    requirePlainMounts(spec, sources);
    const { api } = await client.daemon();
    const { behaviour } = this.#parts;
    if (spec.healthcheck?.startInterval && !behaviour.probe && !knowsStartInterval(api)) {
      warnings.push("healthcheck.startInterval: this engine has none; Docker 25 and later have");
      refuseIfStrict(spec, warnings);
    }
    deployment.transient = deployment.made ? "pulling" : "pending";
    const image = await this.#images.find(spec.image, images, { mayPull, onProgress, signal });
    const hash = specHash(spec, image.digest, env);
    const { record } = deployment;
    await deployment.look();
    const there = deployment.instances.filter(({ found }) => found)
      .map(({ instance, found }): Member => ({ ...instance, found }));
    if (
      deployment.made && record.hash === hash && there.length === spec.replicas &&
      there.every((one) => one.hash === hash)
    ) {
      record.spec.origin = spec.origin;
      await this.ensureRunning(deployment, signal);
      return "unchanged";
    }
    deployment.transient = "creating";
    const { name, attachments } = { name: spec.name, attachments: await this.#prepare(spec) };
    const plan: Plan = {
      ...{ spec, hash, env, attachments, sources, api, image: image.id },
      server: this.#parts.server,
      logDriver: behaviour.logDriver(await this.#logDriver(signal)),
      fixedRestarts: behaviour.fixedRestarts,
      probed: behaviour.probe !== undefined,
      pidsLimit: config.pidsLimit,
    };
    const kept = there.filter((one) =>
      one.hash === hash && one.replica < spec.replicas && one.found && runs(one.found)
    );
    const old = there.filter((one) => !kept.includes(one));
    const made = Array.from({ length: spec.replicas }, (_, replica) => replica)
      .filter((replica) => !kept.some((one) => one.replica === replica))
      .map((replica): Member => ({ container: "", key: keyOf(name, replica), replica, hash }));
    const fresh = !deployment.made;
    const { parallelism, order } = spec.updateConfig ?? {};
    const batches = fresh ? [{ made, old }] : batchesOf(parallelism, made, old, replicaOf);
    let done = 0;
    try {
      for (const batch of batches) {
        const last = batch === batches.at(-1);
        const reached = { spec, hash, warnings, image };
        await this.#replace(deployment, batch, plan, context, {
          window: fresh ? FIRST_WINDOW : REPLACE_WINDOW,
          stopFirst: order === "stop-first",
          reached: last ? reached : undefined,
        });
        done += batch.made.length;
      }
    } catch (error) {
      if (!fresh) {
        record.error = (error as Error).message;
        await deployment.save();
      }
      throw stoppedHalfway(error, made.length, done);
    }
    return fresh ? "created" : "replaced";
  }

  async #prepare(spec: DeploySpec) {
    const { client, server, networks } = this.#parts;
    const attachments = await networks.ensure(spec);
    for (const volume of spec.volumes) await ensureVolume(client, server, volume);
    return attachments;
  }

  async #logDriver(signal?: AbortSignal): Promise<string> {
    const { LoggingDriver } = await this.#parts.client.json<{ LoggingDriver?: string }>({
      path: "/info",
      attempted: "Cannot ask the engine for its log driver",
      signal,
    });
    return LoggingDriver ?? "";
  }

  /** Replaces one batch. Where the new containers do not come up they go, and the old ones are as before. */
  async #replace(
    deployment: Deployment,
    batch: Batch<Member>,
    plan: Plan,
    context: ApplyContext,
    { window, stopFirst, reached }: {
      window: number;
      stopFirst: boolean;
      reached?: { spec: DeploySpec; hash: string; warnings: string[]; image: EngineImage };
    },
  ): Promise<void> {
    const { record } = deployment;
    const { made, old } = batch;
    const running = old.filter(({ found }) => found && isActive(found));
    const exclusive = running.length > 0 && holdsAlone(plan.spec, made);
    try {
      if (exclusive && !stopFirst) await this.#rehearse(deployment, made, plan, context, window);
      // Made before the old ones stop: nobody answers meanwhile.
      await this.#make(made, plan, context);
      if (exclusive || stopFirst) await this.#yield(deployment, running);
      await this.#begin(deployment, made, plan, context, window);
      if (!plan.fixedRestarts) {
        await allOrFirstError(made.map((one) => this.#supervise(one, plan.spec, context.signal)));
      }
    } catch (error) {
      await this.#discard(made);
      if (exclusive || stopFirst) await this.#resume(deployment, running);
      throw error;
    }
    record.instances = [
      ...record.instances.filter((one) =>
        !old.some(({ container }) => container === one.container)
      ),
      ...made.map(({ found: _, ...instance }) => instance),
    ].filter((one) => this.#parts.watch.state(one.container) !== undefined);
    record.stopped = false;
    if (reached) {
      const { image, ...rest } = reached;
      Object.assign(record, rest, {
        image: image.name,
        imageDigest: image.digest,
        updatedAt: new Date().toISOString(),
      });
      delete record.error;
    }
    await deployment.look();
    await deployment.save();
    if (old.length === 0) return;
    context.onProgress("removing the old instances");
    await this.retire(old.map(({ container }) => container), stopSeconds(record.spec));
  }

  async #make(
    made: readonly Member[],
    plan: Plan,
    { signal }: ApplyContext,
    rehearsal = false,
  ): Promise<void> {
    // A pull and the batches before have taken their time.
    await this.binds.recheck(plan.spec, plan.sources);
    await allOrFirstError(made.map(async (one) => {
      const request = { ...plan, replica: one.replica, rehearsal };
      one.container = await this.containers.create(request, one.key, signal);
      if (plan.fixedRestarts) this.#parts.watch.onTrial(one.container, true);
    }));
  }

  /** Starts new containers, and waits until they can be relied on. */
  async #begin(
    deployment: Deployment,
    made: readonly Member[],
    plan: Plan,
    { onProgress, signal }: ApplyContext,
    window: number,
  ): Promise<void> {
    onProgress(`starting ${made.length} instance${made.length === 1 ? "" : "s"}`);
    await allOrFirstError(
      made.map((one) => this.containers.begin(one.container, { ...plan, ...one }, signal)),
    );
    if (plan.spec.healthcheck?.test) onProgress("waiting until healthy");
    await allOrFirstError(
      made.map((one) => this.#settled(deployment, one, plan, window, signal)),
    );
    for (const { container } of made) this.#parts.watch.onTrial(container, false);
  }

  /** Hands a container over to the engine's supervision. */
  async #supervise({ container }: Member, spec: DeploySpec, signal?: AbortSignal): Promise<void> {
    await this.containers.supervise(container, spec, signal);
    const found = await this.#parts.watch.look(container, signal);
    if (!found || isActive(found) || spec.restart === "no") return;
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
    const { client, watch, behaviour: { ownTail } } = this.#parts;
    await settled({
      ...{ client, container, ownTail, window, signal },
      deployment: deployment.name,
      instance: instanceId(deployment.name, replica),
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
    context: ApplyContext,
    window: number,
  ): Promise<void> {
    const tried = made.map((one) => ({ ...one, key: `${one.key}-trial` }));
    try {
      await this.#make(tried, plan, context, true);
      await this.#begin(deployment, tried, plan, context, window);
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
    this.#parts.watch.quiet(old.map(({ container }) => container));
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
      made.filter(({ container }) => container !== "").map(({ container }) =>
        this.containers.remove(container)
      ),
    );
  }

  /** Stops containers in good order and removes them. */
  async retire(containers: readonly string[], seconds: number): Promise<void> {
    this.#parts.watch.quiet(containers);
    await allOrFirstError(containers.map(async (container) => {
      await this.containers.stop(container, seconds);
      await this.containers.remove(container);
    }));
  }

  /** Starts the stopped instances of a deployment that is otherwise unchanged. */
  async ensureRunning(deployment: Deployment, signal?: AbortSignal): Promise<void> {
    const { record } = deployment;
    await deployment.look();
    const idle = deployment.instances.filter(({ found }) => found && !runs(found));
    record.stopped = false;
    delete record.error;
    await deployment.save();
    try {
      await allOrFirstError(idle.map(async ({ instance }) => {
        await this.containers.start(instance.container, signal);
        await this.#settled(deployment, instance, record, FIRST_WINDOW, signal);
      }));
    } catch (error) {
      record.error = (error as Error).message;
      throw error;
    } finally {
      await deployment.look();
      await deployment.save();
    }
  }
}

/** Unique on the engine, and never used again. */
const keyOf = (name: string, replica: number) =>
  `${instanceId(name, replica)}-${crypto.randomUUID().slice(0, 6)}`;

/** True where two containers cannot run beside each other: a host port or an address leads to one alone. */
function holdsAlone({ ports, networks }: DeploySpec, made: readonly InstanceRecord[]): boolean {
  const fixed = networks.some(({ ip, ipv6, mac }) => ip || ipv6 || mac);
  return fixed || made.some(({ replica }) => replica === 0) && ports.some(({ host }) => host);
}
