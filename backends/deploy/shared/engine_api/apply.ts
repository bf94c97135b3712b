/**
 * Applies a spec: checks it, finds its image, and has the instances replaced that are not as it says. A server that
 * ends anywhere leaves the old or the new whole: what the record does not name is removed by the next one.
 */
import type { DeploySpec } from "../../../../lib/api/deploy_spec.ts";
import type { ApplyAction } from "../../../../lib/api/deployment.ts";
import type { AttachedMount, CompanionPlan } from "../../../../lib/deploy/backend.ts";
import { isActedOn } from "../../../../lib/deploy/acted_on_labels.ts";
import { type FieldRules, fieldWarnings, refuseIfStrict } from "../../../../lib/deploy/fields.ts";
import { requirePermitted } from "../../../../lib/deploy/privileges.ts";
import { batchesOf, checkTimes, stoppedHalfway } from "../../../../lib/deploy/roll_out.ts";
import { specHash } from "../../../../lib/deploy/spec_hash.ts";
import type { ImageResolver } from "../../../../lib/oci/resolver.ts";
import { Binds, requirePlainMounts } from "./binds.ts";
import type { Companions } from "./companions.ts";
import type { Deployment } from "./deployment.ts";
import type { DeployEngine } from "./engine.ts";
import { runs } from "./inspect.ts";
import type { EngineNamespaces } from "./namespaces.ts";
import type { Attachments as NetworkAttachments } from "./networks.ts";
import { instanceId, type InstanceRecord } from "./record.ts";
import { type Member, type Plan, type Reached, type ReplaceContext, Replacer } from "./replace.ts";

export interface EngineConfig {
  /** SVC_ALLOW_BIND_SOURCES. */
  allowBindSources: readonly string[];
  /** SVC_HOST_PATH_MAP. */
  hostPathMap?: readonly string[];
  /** Kinds of lib/deploy/privileges.ts. */
  allowPrivileged: readonly string[];
  /** SVC_MAX_BUILD_UNPACKED_BYTES; absent or 0: no limit. */
  maxUnpackedBytes?: number;
  /** SVC_WORKLOAD_PIDS_LIMIT; 0: no limit. */
  pidsLimit: number;
}

export interface ApplierParts {
  engine: DeployEngine;
  companions?: Companions;
  namespaces?: EngineNamespaces;
  /** Identity of the server's data directory. */
  server: string;
  config: EngineConfig;
  fields: FieldRules;
  /** Specs of all deployments. */
  specs: () => readonly DeploySpec[];
}

export interface ApplyContext extends ReplaceContext {
  images: ImageResolver;
  mayPull?: boolean;
  /** The attachments' environment and mounts. */
  env: Readonly<Record<string, string>>;
  attached: readonly AttachedMount[];
  companion?: CompanionPlan;
  /** The server runs something in the instances' network namespaces. */
  beside: boolean;
  /** That is the instances' only way out: they are on no network. */
  walled: boolean;
  /** True: the instances are replaced even where nothing has changed. */
  recreate: boolean;
}

const replicaOf = ({ replica }: InstanceRecord) => replica;

export class Applier {
  readonly binds: Binds;
  readonly replacer: Replacer;
  readonly #parts: ApplierParts;

  constructor(parts: ApplierParts) {
    this.#parts = parts;
    const { engine, config: { allowBindSources: allowed } } = parts;
    this.binds = new Binds({
      specs: parts.specs,
      containers: () => {
        engine.watch.requireLive();
        return engine.watch.all;
      },
      policy: async () => ({ allowed, paths: await engine.hostPaths() }),
    });
    this.replacer = new Replacer({
      engine,
      binds: this.binds,
      companions: parts.companions,
      namespaces: parts.namespaces,
    });
  }

  /** The caller holds the deployment's lock. */
  async apply(
    deployment: Deployment,
    spec: DeploySpec,
    context: ApplyContext,
  ): Promise<ApplyAction> {
    const warnings = this.#check(spec);
    const { roles, mounting } = this.#parts.companions?.plan(spec.name, context.companion) ?? {};
    using held = await this.binds.hold(spec);
    const { sources } = held;
    requirePlainMounts(spec, sources);
    const { engine, server, config } = this.#parts;
    warnings.push(...await engine.told(spec));
    refuseIfStrict(spec, warnings);
    const { images, mayPull, env, attached, onProgress, signal } = context;
    deployment.transient = deployment.made ? "pulling" : "pending";
    const image = await engine.findImage(spec.image, images, { mayPull, onProgress, signal });
    // An instance that is to have another companion is another one.
    const beside = roles ? { ...env, "svc.companion": JSON.stringify(roles) } : env;
    const mounts = [...attached, ...mounting?.mounts ?? []];
    const hash = specHash(spec, image.digest, { env: beside, mounts });
    await deployment.look();
    const there = deployment.instances.filter(({ found }) => found)
      .map(({ instance, found }): Member => ({ ...instance, found }));
    const same = deployment.made && deployment.record.hash === hash && !context.recreate &&
      there.length === spec.replicas && there.every((one) => one.hash === hash);
    if (same) {
      deployment.record.spec.origin = spec.origin;
      const { until } = context;
      if (until !== "created") await this.replacer.ensureRunning(deployment, signal, until);
      return "unchanged";
    }
    deployment.transient = "creating";
    const fresh = !deployment.made;
    const plan: Plan = {
      ...{ spec, server, hash, env, attached, sources, fresh, image, pidsLimit: config.pidsLimit },
      emptied: config.allowPrivileged.includes("labels") ? [] : image.labels.filter(isActedOn),
      attachments: await this.#prepare(spec, context.walled),
      fixedRestarts: engine.fixedRestarts,
    };
    await this.#rollOut(deployment, there, { ...plan, roles, mounting }, context, { warnings });
    return fresh ? "created" : "replaced";
  }

  /** Throws `denied` or `conflict` where the policy does not let the deployment be started as it is. */
  async requireStill({ record: { spec }, instances }: Deployment): Promise<void> {
    requirePermitted(spec, this.#parts.config.allowPrivileged);
    await this.binds.requireStill(spec, instances.flatMap(({ found }) => found ?? []));
  }

  /** The warnings. Throws what keeps the spec from being applied at all. */
  #check(spec: DeploySpec): string[] {
    const { config, fields } = this.#parts;
    requirePermitted(spec, config.allowPrivileged);
    const warnings = fieldWarnings(spec, fields);
    refuseIfStrict(spec, warnings);
    checkTimes(spec);
    return warnings;
  }

  async #rollOut(
    deployment: Deployment,
    there: readonly Member[],
    { roles, mounting, ...plan }: Plan & Pick<InstanceRecord, "roles" | "mounting">,
    context: ApplyContext,
    reached: Reached,
  ): Promise<void> {
    const { spec, hash, fresh } = plan;
    const kept = context.recreate
      ? []
      : there.filter((one) =>
        one.hash === hash && one.replica < spec.replicas && one.found && runs(one.found)
      );
    const old = there.filter((one) => !kept.includes(one));
    const made = Array.from({ length: spec.replicas }, (_, replica) => replica)
      .filter((replica) => !kept.some((one) => one.replica === replica))
      .map((replica): Member => ({
        container: "",
        key: keyOf(spec.name, replica),
        replica,
        hash,
        ...roles && { roles },
        ...mounting && { mounting },
        ...context.beside && { beside: true as const },
      }));
    const batches = fresh
      ? [{ made, old }]
      : batchesOf(spec.updateConfig?.parallelism, made, old, replicaOf);
    let done = 0;
    try {
      for (const batch of batches) {
        const last = batch === batches.at(-1);
        await this.replacer.replace(deployment, batch, plan, context, last ? reached : undefined);
        done += batch.made.length;
      }
    } catch (error) {
      if (!fresh) {
        deployment.record.error = (error as Error).message;
        await deployment.save();
      }
      throw stoppedHalfway(error, made.length, done);
    }
  }

  async #prepare(spec: DeploySpec, walled: boolean): Promise<NetworkAttachments> {
    const { engine } = this.#parts;
    const attachments: NetworkAttachments = walled
      ? { kind: "none" }
      : await engine.networks.ensure(spec);
    for (const volume of spec.volumes) await engine.ensureVolume(volume);
    return attachments;
  }
}

/** Unique on the engine, and never used again. */
const keyOf = (name: string, replica: number) =>
  `${instanceId(name, replica)}-${crypto.randomUUID().slice(0, 6)}`;
