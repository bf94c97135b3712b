/** Applies a spec on the host: creates, leaves unchanged or replaces a deployment. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { ApplyAction, ApplyUntil, PublishedPort } from "../../api/deployment.ts";
import type { ContainerConfig } from "../../oci/types.ts";
import type { ImageResolver } from "../../oci/resolver.ts";
import type { BridgeDriver } from "../../runtime/network.ts";
import type { ApplyProgress, Attachments } from "../backend.ts";
import type { Roles } from "../caretakers.ts";
import { type FieldRules, fieldWarnings, refuseIfStrict } from "../fields.ts";
import { requirePermitted } from "../privileges.ts";
import { allOrFirstError, batchesOf, checkTimes, stoppedHalfway } from "../roll_out.ts";
import { specHash } from "../spec_hash.ts";
import type { BindMounts } from "./binds.ts";
import { type ContainerPlan, containerPlan, imageWarnings } from "../container_config.ts";
import type { HostCompanions } from "./companions.ts";
import type { Deployment } from "./deployment.ts";
import type { Deployments } from "./deployments.ts";
import type { ContainerEngine } from "./engine.ts";
import { portsToTakeOver } from "./gate.ts";
import { choosePorts, requireFree } from "./host_ports.ts";
import type { Instance } from "./instance.ts";
import type { Revision } from "./instance_parts.ts";
import { removeLeft } from "./leftovers.ts";
import { canPublish, fixedAddresses, type NetworkTable, publishesIPv6 } from "./networks.ts";
import type { InstanceRecord } from "./record.ts";
import { RollOut } from "./roll_out.ts";
import type { Spares } from "./spares.ts";
import { FIRST_WINDOW, settled } from "./trial.ts";

/** Milliseconds that a new instance has to listen on the ports that its predecessor answers on. */
const TAKE_OVER_MS = 5 * 60_000;

export interface ApplierOptions {
  engine: ContainerEngine;
  bridges: BridgeDriver;
  networks: NetworkTable;
  spares: Spares;
  binds: BindMounts;
  /** Absent: instances have no companions. */
  companions?: HostCompanions;
  deployments: Deployments;
  /** Kinds of lib/deploy/privileges.ts. */
  allowPrivileged: readonly string[];
  /** Milliseconds that a replacement has to listen where its predecessor does; default 5 minutes. */
  takeOverMs?: number;
  /** What the backend does with each field of a spec. */
  fields: FieldRules;
  /** True where the server itself listens at that published port. */
  holdsPort?: (port: PublishedPort) => boolean;
}

export interface ApplyOptions {
  images: ImageResolver;
  /** Of which this engine knows the environment, the mounts and the egress. */
  attachments: Attachments;
  onProgress: ApplyProgress;
  signal?: AbortSignal;
  /** "ready" waits until the instances can be relied on. */
  until: ApplyUntil;
  /** True: the instances are replaced even where nothing has changed. */
  recreate: boolean;
}

/** Instances that take the place of others. */
interface Replacing {
  deployment: Deployment;
  made: Instance[];
  old: readonly Instance[];
  spec: DeploySpec;
  /** The image's. */
  config: ContainerConfig;
  /** Called when the last of the new instances serve. */
  reach: () => void;
}

const replicaOf = (instance: Instance) => instance.made.replica;

function newRecord(
  spec: DeploySpec,
  replica: number,
  rest: Pick<InstanceRecord, "plan" | "choice" | "ports"> & Partial<InstanceRecord>,
): InstanceRecord {
  const random = crypto.randomUUID().slice(0, 6);
  // No id of containerd has two hyphens in a row.
  const name = spec.name.replaceAll(/--+/g, "-");
  return {
    key: `${name}-${replica}-${random}`,
    replica,
    phase: "creating",
    networks: [],
    hostname: spec.hostname ?? `${spec.name}-${replica}`,
    restarts: 0,
    ...rest,
  };
}

async function comesUp(
  deployment: Deployment,
  made: readonly Instance[],
  reach: () => void,
): Promise<void> {
  reach();
  await deployment.save();
  for (const instance of made) instance.supervise();
  await deployment.moved();
}

export class Applier {
  #options: ApplierOptions;

  constructor(options: ApplierOptions) {
    this.#options = options;
  }

  /** Starts the stopped instances of a deployment that is otherwise unchanged. */
  async ensureRunning(
    deployment: Deployment,
    signal?: AbortSignal,
    until: ApplyUntil = "ready",
  ): Promise<void> {
    const idle = deployment.ready.filter((instance) => !instance.running);
    await this.#options.deployments.reserve(deployment.name, async (taken) => {
      if (deployment.record.stopped) {
        await requireFree(deployment.ports, taken, this.#options.holdsPort);
      }
      deployment.want(true);
    });
    if (idle.length > 0) deployment.begin("start");
    await deployment.save();
    try {
      await allOrFirstError(idle.map(async (instance) => {
        await instance.start();
        if (until !== "ready") return;
        await settled(instance, { window: FIRST_WINDOW, orListening: true, signal });
      }));
      await deployment.moved();
    } catch (error) {
      deployment.failed(error);
      throw error;
    } finally {
      for (const instance of idle) instance.supervise();
      deployment.begin();
      await deployment.save();
    }
  }

  /** Makes instances for the replicas that are not kept: assigns ports, networks and prepared namespaces. */
  #reserve(
    deployment: Deployment,
    revision: Revision,
    plan: ContainerPlan,
    { kept, walled, roles, added, warnings }: {
      kept: readonly Instance[];
      walled: boolean;
      roles?: Roles;
      added: Pick<InstanceRecord, "companionMounts" | "secretEnv">;
      warnings: string[];
    },
  ): Promise<Instance[]> {
    const { deployments, networks, spares } = this.#options;
    const { spec } = revision;
    return deployments.reserve(spec.name, async (taken) => {
      // Several instances cannot have one address: that is told by the list of fields.
      const wanted = spec.replicas === 1
        ? spec.networks
        : spec.networks.map(({ ip: _ip, ipv6: _ipv6, mac: _mac, ...network }) => network);
      const choice = await networks.choose(wanted, {
        ...deployments.choices(spec.name),
        ...(walled && { walled: spec.name }),
        warn: (text) => warnings.push(text),
      });
      refuseIfStrict(spec, warnings);
      const publishes = canPublish(choice);
      if (spec.ports.length > 0 && choice.kind === "bridges" && !publishes) {
        warnings.push("ports: nothing is published on an internal network");
        refuseIfStrict(spec, warnings);
      }
      const before = deployment.ports;
      const six = publishesIPv6(choice);
      const everywhere = six ? "::" : "0.0.0.0";
      const some = spec.ports.filter(({ hostIP = "" }) =>
        six || !hostIP.includes(":") || ["::", "::1"].includes(hostIP)
      );
      if (publishes && some.length < spec.ports.length) {
        warnings.push(
          "ports: nothing is published at IPv6 addresses; give the deployment's network enableIPv6",
        );
        refuseIfStrict(spec, warnings);
      }
      const ports = publishes ? await choosePorts(some, { before, taken, everywhere }) : [];
      await requireFree(ports, taken, this.#options.holdsPort);
      const replicas = Array.from({ length: spec.replicas }, (_, replica) => replica)
        .filter((replica) => !kept.some((one) => one.made.replica === replica));
      const spare = await spares.take(choice);
      return deployment.add(
        revision,
        replicas.map((replica, index) =>
          newRecord(spec, replica, {
            plan,
            choice,
            ports,
            roles,
            ...added,
            ...(index === 0 && spare),
          })
        ),
      );
    });
  }

  /** Replaces the old instances, batch by batch. */
  async #replace(
    rollOut: RollOut,
    tree: string,
    { deployment, made, old, spec, config, reach }: Replacing,
  ): Promise<void> {
    const ports = made.flatMap((instance) => instance.made.ports);
    const takesOver = rollOut.until === "ready"
      ? await portsToTakeOver(old, { spec, ports, image: config })
      : [];
    const limit = this.#options.takeOverMs ?? TAKE_OVER_MS;
    const { parallelism, order } = spec.updateConfig ?? {};
    const stopFirst = order === "stop-first";
    const fixed = new Set(old.flatMap(({ made: { choice } }) => fixedAddresses(choice)));
    const inherits = made.some(({ made: { choice } }) =>
      fixedAddresses(choice).some((address) => fixed.has(address))
    );
    const batches = batchesOf(parallelism, made, old, replicaOf);
    for (const batch of batches) {
      const taken = batch === batches.at(-1) ? reach : () => deployment.want(true);
      await rollOut.replace(batch, tree, { takesOver, limit, stopFirst, inherits, taken });
    }
  }

  /**
   * The caller holds the deployment's lock. A `fresh` deployment that does not come up is removed whole. An
   * existing one keeps the old instances that were not replaced yet.
   */
  async apply(
    deployment: Deployment,
    fresh: boolean,
    spec: DeploySpec,
    { images, attachments, onProgress, signal, until, recreate }: ApplyOptions,
  ): Promise<ApplyAction> {
    const { engine, bridges, binds, spares, allowPrivileged } = this.#options;
    requirePermitted(spec, allowPrivileged);
    const warnings = fieldWarnings(spec, this.#options.fields);
    refuseIfStrict(spec, warnings);
    checkTimes(spec);
    const roles = this.#options.companions?.rolesOf(spec, attachments);
    await binds.check(spec);
    onProgress(`resolving ${spec.image}`);
    const [image] = await Promise.all([
      images.resolve(spec.image, { signal }),
      engine.ready(),
      bridges.preflight(),
    ]);
    const config = image.config.config ?? {};
    warnings.push(...imageWarnings(spec, config));
    await removeLeft(deployment);
    const hash = specHash(spec, image.descriptor.digest, attachments, roles);
    const isSo = (instance: Instance) => instance.hash === hash && !recreate;
    const complete = deployment.ready.length === spec.replicas && deployment.ready.every(isSo);
    if (!fresh && deployment.record.hash === hash && complete) {
      deployment.comesFrom(spec.origin);
      if (until !== "created") await this.ensureRunning(deployment, signal, until);
      return "unchanged";
    }
    // Instances of the same revision, from an earlier roll-out that stopped halfway.
    const kept = deployment.ready.filter((one) =>
      isSo(one) && one.running && one.made.replica < spec.replicas
    );
    const old = deployment.ready.filter((one) => !kept.includes(one));
    const plan = containerPlan(spec, config, attachments);
    const made = await this.#reserve(deployment, { spec, hash }, plan, {
      ...{ kept, walled: attachments.egress !== undefined, roles, warnings },
      added: {
        companionMounts: attachments.companion?.mounts,
        secretEnv: attachments.secretEnv,
      },
    });
    const rollOut = new RollOut(deployment, { onProgress, signal, warnings, until });
    const reach = () => {
      const { name, descriptor: { digest: imageDigest } } = image;
      deployment.reach({ spec, hash, warnings, image: name, imageDigest });
      if (until === "created") deployment.want(false);
    };
    try {
      deployment.transient = "pulling";
      onProgress(`pulling ${image.name}`);
      // The unpacked tree is kept until the instances are built on it.
      using tree = await engine.roots.unpack(image, { signal });
      deployment.transient = "creating";
      if (fresh) deployment.aim({ spec, hash }, image.name);
      await deployment.save();
      if (fresh) await rollOut.begin(made, tree.name);
      else await this.#replace(rollOut, tree.name, { deployment, made, old, spec, config, reach });
    } catch (error) {
      await rollOut.discard(made);
      deployment.failed(error);
      if (!fresh) await deployment.save();
      throw stoppedHalfway(error, made.length, made.filter((one) => one.ready).length);
    }
    if (fresh) await comesUp(deployment, made, reach);
    for (const { made: { choice } } of made.slice(0, 1)) spares.prepare(choice);
    return fresh ? "created" : "replaced";
  }
}
