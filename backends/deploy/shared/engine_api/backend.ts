/** A deploy backend on an engine that others use too, and that keeps the containers. */
import { join } from "node:path";
import type { DeploySpec } from "../../../../lib/api/deploy_spec.ts";
import type { ApplyResult, DeploymentStatus } from "../../../../lib/api/deployment.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import type { Logger } from "../../../../lib/base/log.ts";
import { KeyedMutex } from "../../../../lib/base/mutex.ts";
import type {
  ApplyOptions,
  Attachments,
  DeployBackend,
  DeployCaps,
  LogOptions,
} from "../../../../lib/deploy/backend.ts";
import type { FieldRules } from "../../../../lib/deploy/fields.ts";
import { mergeLogs } from "../../../../lib/deploy/host/log_file.ts";
import { requireFreeAliases } from "../../../../lib/deploy/host/names.ts";
import { JsonRecords } from "../../../../lib/deploy/json_records.ts";
import type { WorkloadNamespaces } from "../../../../lib/deploy/namespaces.ts";
import type { ImageResolver } from "../../../../lib/oci/resolver.ts";
import { Applier, type EngineConfig } from "./apply.ts";
import { type CompanionOptions, Companions } from "./companions.ts";
import { Deployment } from "./deployment.ts";
import { Dialer } from "./dial.ts";
import type { DeployEngine } from "./engine.ts";
import { EngineNamespaces } from "./namespaces.ts";
import { type EngineRecord, instanceId } from "./record.ts";
import type { Replacer } from "./replace.ts";
import { Upkeep } from "./upkeep.ts";
import type { EngineWatch } from "./watch.ts";

export interface EngineBackendOptions {
  engine: DeployEngine;
  /** Identity of the server's data directory: what carries it is this server's. */
  server: string;
  /** Folder of the backend's files. */
  folder: string;
  config: EngineConfig;
  fields: FieldRules;
  images: ImageResolver;
  /** Absent: instances have no companions. */
  companions?: CompanionOptions;
  /** What the server runs beside workloads. Absent: it sees none of their namespaces. */
  namespaces?: WorkloadNamespaces;
  log: Logger;
}

/** Opens the backend. An engine that is not there is found when it is. */
export async function openEngineBackend(options: EngineBackendOptions): Promise<DeployBackend> {
  const backend = new EngineBackend(options);
  await backend.open();
  return backend;
}

class EngineBackend implements DeployBackend {
  readonly name: string;
  readonly caps: DeployBackend["caps"];
  readonly #options: EngineBackendOptions;
  readonly #records: JsonRecords<EngineRecord>;
  readonly #deployments = new Map<string, Deployment>();
  readonly #locks = new KeyedMutex();
  readonly #engine: DeployEngine;
  readonly #watch: EngineWatch;
  readonly #applier: Applier;
  readonly #replacer: Replacer;
  readonly #upkeep: Upkeep;
  readonly #dialer: Dialer;
  readonly #companions: Companions | undefined;
  readonly #namespaces: EngineNamespaces | undefined;

  constructor(options: EngineBackendOptions) {
    const { engine, server, folder, log, config, fields } = options;
    const { networks, watch } = engine;
    this.name = engine.name;
    this.#options = options;
    this.#engine = engine;
    this.#watch = watch;
    this.#records = new JsonRecords(join(folder, "deployments"));
    this.#companions = this.#openCompanions(options);
    const companions = this.#companions;
    const namespaces = options.namespaces &&
      new EngineNamespaces({ namespaces: options.namespaces, watch, log });
    this.#namespaces = namespaces;
    this.#applier = new Applier({
      ...{ engine, server, config, fields, companions, namespaces },
      specs: () => [...this.#deployments.values()].map(({ record }) => record.spec),
    });
    this.#replacer = this.#applier.replacer;
    this.#upkeep = new Upkeep({
      ...{ engine, applier: this.#applier, companions, log },
      deployments: this.#deployments,
      locks: this.#locks,
    });
    this.#dialer = new Dialer(engine, namespaces);
    const abilities = engine.abilities({
      ...{ server, watch, networks },
      require: (name) => this.#require(name),
      deployments: () => this.#deployments.values(),
      requireStill: ({ record, instances }) => {
        const containers = instances.flatMap(({ found }) => found ?? []);
        return this.#applier.binds.requireStill(record.spec, containers);
      },
    });
    this.caps = { ...abilities, ...this.#companionAbilities(), ...this.#besideAbilities() };
  }

  #openCompanions(
    { engine, images, companions: options, log }: EngineBackendOptions,
  ): Companions | undefined {
    const { companions: calls, watch } = engine;
    if (!options || !calls) return undefined;
    const findImage = (name: string) => engine.findImage(name, images, { onProgress: () => {} });
    return new Companions({ ...options, calls, watch, findImage, log });
  }

  #companionAbilities(): Pick<
    DeployCaps,
    "agent" | "companion" | "companionMounts" | "companionVariable"
  > {
    const { companions: options } = this.#options;
    const companions = this.#companions;
    if (!options || !companions) return {};
    return {
      ...options.moreRoles !== false && { companion: true as const },
      ...companions.mounts && { companionMounts: true as const },
      companionVariable: options.variable,
      ...companions.always && {
        agent: (name, { instance, ...options }) =>
          companions.agent(name, this.#require(name).pick(instance), options),
      },
    };
  }

  #besideAbilities(): Pick<DeployCaps, "namespaces" | "egress"> {
    if (!this.#namespaces) return {};
    return {
      namespaces: true,
      // A companion beside a workload without a network would not reach the server.
      ...!this.#companions?.always && { egress: { modes: ["proxy", "transparent"] as const } },
    };
  }

  get #parts() {
    const companions = this.#companions;
    return {
      watch: this.#watch,
      records: this.#records,
      ...companions && { isAttached: (key: string) => companions.serves(key) },
    };
  }

  async open(): Promise<void> {
    for (const record of await this.#records.load()) {
      this.#deployments.set(record.name, new Deployment(this.#parts, record));
    }
    for (const one of this.#deployments.values()) this.#expect(one);
    await this.#watch.open(async () => {
      await this.#namespaces?.settle();
      await this.#upkeep.lookAfter();
      // An engine may still be making what a server asked for that has ended since.
    }, (deployment) => this.#upkeep.followUp(deployment, true));
    void this.#namespaces?.follow();
    void this.#companions?.watch((name, container) =>
      this.#deployments.get(name)?.record.instances.find((one) => one.container === container)
    );
  }

  /** What is beside the instances of an earlier server. */
  #expect(one: Deployment): void {
    this.#companions?.expect(one);
    const { name: deployment, record: { spec, instances } } = one;
    for (const { container, replica, beside } of instances) {
      if (beside) this.#namespaces?.expect(container, { deployment, spec, replica });
    }
  }

  ready(): Promise<void> {
    return this.#engine.ready();
  }

  about(): Promise<string> {
    return this.#engine.about();
  }

  /** Throws `not_found`. */
  #require(name: string): Deployment {
    const deployment = this.#deployments.get(name);
    if (deployment && !deployment.gone) return deployment;
    throw new SvcError("not_found", `Cannot find deployment ${name}: there is none of that name`);
  }

  apply(
    spec: DeploySpec,
    { env = {}, mounts: attached = [], companion, egress, beside }: Attachments = {},
    options: ApplyOptions = {},
  ): Promise<ApplyResult> {
    const { onProgress = () => {}, mayPull, logins, signal } = options;
    const { until = "ready", recreate = false } = options;
    return this.#locks.run(spec.name, async () => {
      const before = this.#deployments.get(spec.name);
      // Else its removal would be ended with what is made now.
      if (before?.record.deleting) await this.#upkeep.remove(before);
      const known = this.#deployments.get(spec.name);
      const deployment = known ?? Deployment.fresh(this.#parts, spec);
      let failed = false;
      const { images: all } = this.#options;
      const images = all.forCaller?.({ mayPull, logins }) ?? all;
      deployment.joining = this.#engine.networks.namesOf(spec);
      this.#deployments.set(spec.name, deployment);
      try {
        const others = [...this.#deployments.values()].map(({ record }) => record.spec);
        requireFreeAliases(spec, others);
        const context = {
          ...{ images, mayPull, env, attached, companion, onProgress, signal, until, recreate },
          walled: egress !== undefined,
          beside: egress !== undefined || beside !== undefined,
        };
        const action = await this.#applier.apply(deployment, spec, context);
        deployment.transient = undefined;
        return { action, deployment: deployment.status() };
      } catch (error) {
        failed = true;
        if (!deployment.made) this.#deployments.delete(spec.name);
        throw error;
      } finally {
        deployment.transient = undefined;
        deployment.joining = [];
        await this.#companions?.settle(spec.name, deployment.record.instances);
        this.#upkeep.followUp(spec.name, failed);
        if (known || !deployment.made) await this.#upkeep.prune();
      }
    });
  }

  status(name: string): Promise<DeploymentStatus | undefined> {
    return Promise.resolve().then(() => {
      const deployment = this.#deployments.get(name);
      if (!deployment || deployment.gone) return undefined;
      this.#watch.requireLive();
      return deployment.status();
    });
  }

  list(): Promise<DeploymentStatus[]> {
    return Promise.resolve().then(() => {
      const all = [...this.#deployments.values()].filter(({ gone }) => !gone);
      if (all.length > 0) this.#watch.requireLive();
      return all.map((one) => one.status()).sort((a, b) => a.name < b.name ? -1 : 1);
    });
  }

  spec(name: string): Promise<DeploySpec | undefined> {
    const deployment = this.#deployments.get(name);
    const there = deployment?.made && !deployment.record.deleting;
    return Promise.resolve(there ? deployment.record.spec : undefined);
  }

  events(signal: AbortSignal) {
    return this.#watch.watch(signal);
  }

  delete(name: string): Promise<boolean> {
    return this.#locks.run(name, async () => {
      const deployment = this.#deployments.get(name);
      if (!deployment) return false;
      deployment.record.deleting = true;
      // A full disk must not prevent the removal that frees it.
      await deployment.save().catch((error) =>
        this.#options.log.warn(
          "the record of a removal was not written; the deployment is removed all the same",
          {
            deployment: name,
            error,
          },
        )
      );
      try {
        await this.#upkeep.remove(deployment);
      } finally {
        this.#upkeep.followUp(name, false);
      }
      await this.#upkeep.prune();
      return true;
    });
  }

  async power(
    name: string,
    action: "start" | "stop" | "restart",
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<DeploymentStatus> {
    this.#require(name);
    return await this.#locks.run(name, async () => {
      const deployment = this.#require(name);
      // Checked before anything is stopped: a refused restart leaves the workload as it was.
      if (action !== "stop") await this.#applier.requireStill(deployment);
      try {
        if (action !== "start") {
          deployment.transient = "stopping";
          await this.#stop(deployment, action === "restart");
        }
        if (action !== "stop") {
          deployment.transient = "creating";
          await this.#replacer.ensureRunning(deployment, signal);
        }
      } finally {
        deployment.transient = undefined;
        this.#upkeep.followUp(name, false);
      }
      await deployment.look();
      return deployment.status();
    });
  }

  async #stop(deployment: Deployment, again: boolean): Promise<void> {
    const { record } = deployment;
    const containers = record.instances.map(({ container }) => container);
    if (again) this.#watch.quiet(containers);
    else {
      this.#watch.stopping(containers);
      record.stopped = true;
    }
    if (!again || !record.stopped) record.pending = again ? "restart" : "stop";
    await deployment.save();
    await this.#replacer.halt(deployment);
    if (again) return;
    delete record.pending;
    await deployment.save();
  }

  async *logs(name: string, options: LogOptions = {}) {
    const deployment = this.#require(name);
    const { instance, follow = false } = options;
    const chosen = instance === undefined
      ? deployment.instances.map((one) => one.instance)
      : [deployment.pick(instance)];
    const logs = chosen.map(({ container, replica }) =>
      this.#engine.readLogs(container, instanceId(name, replica), options)
    );
    yield* mergeLogs(logs, follow);
  }

  async dial(
    name: string,
    port: number,
    protocol: "tcp" | "udp",
    { signal }: { signal?: AbortSignal } = {},
  ) {
    const deployment = this.#require(name);
    this.#watch.requireLive();
    if (this.#companions?.always) {
      return await this.#companions.dial(deployment, port, protocol, signal);
    }
    return await this.#dialer.dial(deployment, port, protocol, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#upkeep.stop();
    await this.#watch.close();
    await this.#namespaces?.[Symbol.asyncDispose]();
    await this.#engine[Symbol.asyncDispose]();
  }
}
