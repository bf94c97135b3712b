/** The backend of a host: deployments on a container engine of the host, networks by CNI. */
import { asSvcError, isAbort, SvcError } from "../../base/errors.ts";
import { SharedRuns } from "../../base/shared_runs.ts";
import { KeyedMutex } from "../../base/mutex.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { ApplyResult, DeploymentStatus, InstanceEvent } from "../../api/deployment.ts";
import type { ApplyOptions, Attachments, DeployBackend, LogOptions } from "../backend.ts";
import type { EgressAbility } from "../caps.ts";
import type { CompanionOptions } from "../companions.ts";
import { InstanceEvents } from "../instance_events.ts";
import { mergeLogs } from "./log_file.ts";
import type { FieldRules } from "../fields.ts";
import { requirePermitted } from "../privileges.ts";
import type { BridgeDriver } from "../../runtime/network.ts";
import { pluginsEnded } from "../../runtime/plugin_runs.ts";
import type { ImageResolver } from "../../oci/resolver.ts";
import { hostAbilities } from "./abilities.ts";
import { Applier } from "./apply.ts";
import { ContainerFiles } from "./container_files.ts";
import { accompanied, HostCompanions } from "./companions.ts";
import { Deployment } from "./deployment.ts";
import { Deployments } from "./deployments.ts";
import { dialInTurn } from "../../wire/dial.ts";
import { sweepRoots } from "./files/instance_root.ts";
import type { InstanceParts } from "./instance_parts.ts";
import { sweepGoneServers } from "./gone_servers.ts";
import { Leftovers } from "./leftovers.ts";
import { requireFreeAliases } from "./names.ts";
import { networkUsers } from "./managed.ts";
import { agreeOnInternal, NetworkTable } from "./networks.ts";
import { type HostParts, hostParts } from "./parts.ts";
import { PublishedPorts } from "./published_ports.ts";
import { reconcile } from "./reconcile.ts";
import { JsonRecords } from "../json_records.ts";
import { emptyRecord } from "../record.ts";
import type { DeploymentRecord, DeploymentRecords } from "./record.ts";
import type { Resolvers } from "./resolvers.ts";
import { Spares } from "./spares.ts";
import { WayOut } from "./way_out.ts";
import { best } from "./standing.ts";

export interface HostBackendOptions extends Omit<HostParts, "companions"> {
  name: string;
  images: ImageResolver;
  /** What this engine has beyond the others. */
  more?: Pick<DeployBackend["caps"], "images" | "noCallerMounts" | "pruneImages">;
  /** What the backend does with each field of a spec. */
  fields: FieldRules;
  /** See {@linkcode DeployBackend.caps}. */
  secretEnv?: true;
  /** Absent: instances have no companions. */
  beside?: CompanionOptions;
}

/**
 * Opens the backend and takes over the existing containers. Living ones keep running, ended ones are restarted
 * by their policy, half-made ones are removed. The engine is asked only when there is a container to run.
 */
export async function openHostBackend(options: HostBackendOptions): Promise<DeployBackend> {
  const backend = new HostBackend(options);
  await backend.open();
  return backend;
}

class HostBackend implements DeployBackend {
  readonly name: string;
  readonly caps: DeployBackend["caps"];
  #options: HostBackendOptions;
  #records: DeploymentRecords;
  #deployments = new Deployments();
  #locks = new KeyedMutex();
  #networks: NetworkTable;
  #bridges: BridgeDriver;
  #resolvers: Resolvers;
  #spares: Spares;
  #wayOut: WayOut;
  #files: ContainerFiles;
  #ports: PublishedPorts;
  #parts: InstanceParts;
  #applier: Applier;
  #companions: HostCompanions | undefined;
  #events = new InstanceEvents();
  /** A crowd that comes up at once is looked at once. */
  #moves = new SharedRuns(() => this.#move());
  #leftovers = new Leftovers((deployment, work) => this.#locks.run(deployment.name, work));
  #closing = new AbortController();
  /** Counts the connections, so that replicas take turns. */
  #turn = 0;

  constructor(options: HostBackendOptions) {
    const { name, paths, config, engine, fields, log } = options;
    const { allowPrivileged, cniSubnetBase: subnetBase } = config;
    const instances = () => this.#deployments.instances;
    const companions = this.#companions = options.beside &&
      new HostCompanions({ ...options, ...options.beside });
    const made = hostParts({ ...options, companions }, instances);
    const { bridges, resolvers, volumes, ...parts } = made;
    const { binds } = parts;
    this.name = name;
    this.#options = options;
    this.#records = new JsonRecords<DeploymentRecord>(paths.deployments);
    this.#networks = new NetworkTable(paths.networks, subnetBase);
    this.#bridges = bridges;
    this.#resolvers = resolvers;
    this.#spares = new Spares({ bridges, folder: paths.spares, subnetBase, log });
    this.#wayOut = new WayOut({ bridges, folder: paths.spares, subnetBase });
    this.#files = new ContainerFiles(resolvers, log);
    this.#ports = new PublishedPorts(paths.portChain, instances, log);
    this.#parts = parts;
    this.#applier = new Applier({
      ...{ engine, bridges, binds, companions, allowPrivileged, fields },
      networks: this.#networks,
      spares: this.#spares,
      deployments: this.#deployments,
      takeOverMs: config.takeOverMs,
      holdsPort: (port) => this.#ports.holds(port),
    });
    const abilities = hostAbilities({
      ...{ engine, volumes },
      deployments: this.#deployments,
      networks: this.#networks,
      events: this.#events,
      roots: {
        folder: paths.roots,
        binds: paths.binds,
        allowBindSources: config.allowBindSources,
      },
      closing: this.#closing.signal,
      pruneNetworks: (options) => this.#pruneNetworks(options),
    });
    const egress: EgressAbility = {
      modes: ["proxy", "transparent"],
      dialOut: (address, port, signal) => this.#wayOut.dial(address, port, signal),
    };
    this.caps = {
      ...abilities,
      ...options.more,
      secretEnv: options.secretEnv,
      ...(options.namespaces && { egress }),
      ...companions?.abilities((name, id) => accompanied(this.#deployments.require(name).pick(id))),
    };
  }

  async ready(): Promise<void> {
    await this.#options.engine.ready();
    await this.#bridges.preflight();
  }

  async open(): Promise<void> {
    const { paths, config, log } = this.#options;
    await pluginsEnded([paths.netns, paths.spares], log);
    await sweepRoots(paths.roots);
    const records = await this.#records.load();
    agreeOnInternal(records.flatMap(({ instances }) => instances.map(({ choice }) => choice)));
    for (const record of records) this.#deployments.set(this.#deployment(record));
    await Promise.all(
      this.#deployments.all.map((deployment) =>
        this.#locks.run(deployment.name, async () => {
          const kept = await reconcile(deployment, this.#parts);
          if (!kept) this.#deployments.remove(deployment.name);
        })
      ),
    );
    const taken = this.#deployments.instances.flatMap(({ made }) => made.endpoint ?? []);
    await this.#spares.sweep(new Set(taken));
    await this.#pruneNetworks();
    await sweepGoneServers({
      ...{ paths, log, base: config.cniSubnetBase },
      removeNetwork: (network) => this.#bridges.removeNetwork(network),
    });
    if (records.length > 0) await this.#changed();
  }

  #deployment(record: DeploymentRecord): Deployment {
    return new Deployment(this.#parts, this.#records, record, {
      attached: () => this.#ports.sync(),
      moved: () => this.#moves.run(),
      changed: () => this.#changed(),
      tell: (event) => this.#events.emit(event),
    });
  }

  /** Removes networks without deployments. A network that cannot be removed now is removed later. */
  async #pruneNetworks(options: { atEnd?: boolean } = {}): Promise<void> {
    try {
      await this.#networks.prune(
        (name, network) => networkUsers(this.#deployments, name, network).length > 0,
        async (network) => {
          await this.#spares.release(network);
          await this.#resolvers.release(network);
          await this.#bridges.removeNetwork(network);
        },
        options,
      );
    } catch (error) {
      this.#options.log.warn("an unused network was not removed", { error });
    }
  }

  /** Updates names and published ports. Throws where the ports cannot be updated. */
  async #move(): Promise<void> {
    const { instances } = this.#deployments;
    const networks = instances.flatMap((one) => one.networks.map(({ network }) => network));
    await Promise.all([
      this.#ports.sync(),
      this.#resolvers.serve(networks).then(() => this.#files.refresh(instances)),
    ]);
  }

  /** As {@linkcode #move}, where no caller waits for the result: failures are logged. */
  async #changed(): Promise<void> {
    try {
      await this.#moves.run();
    } catch (error) {
      this.#options.log.warn("names or published ports were not updated", { error });
    }
  }

  apply(
    spec: DeploySpec,
    attachments: Attachments = {},
    options: ApplyOptions = {},
  ): Promise<ApplyResult> {
    const { onProgress = () => {}, mayPull, logins, signal } = options;
    const { until = "ready", recreate = false } = options;
    return this.#locks.run(spec.name, async () => {
      const known = this.#deployments.get(spec.name);
      const deployment = known ?? this.#deployment(emptyRecord(spec));
      const { images: all } = this.#options;
      const images = all.forCaller?.({ mayPull, logins }) ?? all;
      const context = { images, attachments, onProgress, signal, until, recreate };
      deployment.transient = known ? undefined : "pending";
      deployment.joining = spec.networks.map((network) => network.name);
      this.#deployments.set(deployment);
      try {
        requireFreeAliases(spec, this.#deployments.all.map(({ record }) => record.spec));
        const action = await this.#applier.apply(deployment, !known, spec, context);
        deployment.transient = undefined;
        return { action, deployment: deployment.status() };
      } catch (error) {
        if (!known) {
          this.#deployments.remove(spec.name);
          if (deployment.instances.length === 0) await deployment.forget();
          else this.#leftovers.take(deployment, () => this.#forget(deployment));
        }
        throw isAbort(error) ? error : asSvcError(error, `Cannot deploy ${spec.name}`);
      } finally {
        deployment.transient = undefined;
        deployment.joining = [];
        if (known) this.#leftovers.take(deployment, () => deployment.save());
        await this.#changed();
        if (known) await this.#pruneNetworks();
      }
    });
  }

  /** The end of a first apply that failed; a later one may have the name by now. */
  async #forget(deployment: Deployment): Promise<void> {
    if (!this.#deployments.get(deployment.name)) await deployment.forget();
  }

  status(name: string): Promise<DeploymentStatus | undefined> {
    return Promise.resolve(this.#deployments.get(name)?.status());
  }

  list(): Promise<DeploymentStatus[]> {
    const all = this.#deployments.all.map((deployment) => deployment.status());
    return Promise.resolve(all.sort((a, b) => a.name < b.name ? -1 : 1));
  }

  spec(name: string): Promise<DeploySpec | undefined> {
    const record = this.#deployments.get(name)?.record;
    // A deployment whose first apply is not done has no image yet.
    const made = record && record.imageDigest !== "" && !record.deleting;
    return Promise.resolve(made ? record.spec : undefined);
  }

  events(signal: AbortSignal): AsyncIterable<InstanceEvent> {
    return this.#events.watch(signal);
  }

  delete(name: string): Promise<boolean> {
    return this.#locks.run(name, async () => {
      const deployment = this.#deployments.get(name);
      if (!deployment) return false;
      deployment.condemn();
      // A full disk must not prevent the removal that frees it.
      await deployment.save().catch((error) =>
        this.#options.log.warn("a removal is not on record; it goes on", {
          deployment: name,
          error,
        })
      );
      await Promise.all(deployment.instances.map((instance) => instance.end()));
      await deployment.forget();
      this.#deployments.remove(name);
      deployment.drop(deployment.instances);
      await this.#moves.run();
      await this.#pruneNetworks();
      return true;
    });
  }

  async power(
    name: string,
    action: "start" | "stop" | "restart",
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<DeploymentStatus> {
    this.#deployments.require(name);
    return await this.#locks.run(name, async () => {
      const deployment = this.#deployments.require(name);
      const { stopped } = deployment.record;
      // Checked before anything is stopped: a refused restart leaves the workload as it was.
      if (action === "restart") {
        requirePermitted(deployment.record.spec, this.#parts.allowPrivileged);
      }
      try {
        if (action !== "start") {
          deployment.transient = "stopping";
          deployment.want(action !== "stop");
          deployment.begin(action === "restart" ? action : undefined);
          try {
            await deployment.save();
          } catch (error) {
            // A stop goes on even where its record cannot be written; saving again reports the error.
            if (action === "restart") throw error;
          }
          await Promise.all(deployment.ready.map((instance) => instance.stop()));
        }
        if (action === "stop") await this.#moves.run();
        else {
          deployment.transient = "creating";
          await this.#applier.ensureRunning(deployment, signal);
        }
      } finally {
        deployment.transient = undefined;
        if (action !== "stop" || !stopped) {
          const idle = deployment.ready.filter(({ active }) => !active);
          for (const one of idle) deployment.tell(one, { type: "stopped" });
        }
        await deployment.save();
      }
      return deployment.status();
    });
  }

  async *logs(name: string, options: LogOptions = {}) {
    const deployment = this.#deployments.require(name);
    const { instance, follow = false } = options;
    const chosen = instance === undefined ? deployment.ready : [deployment.pick(instance)];
    const logs = chosen.map((one) => one.log({ ...options, ended: () => !one.active }));
    yield* mergeLogs(logs, follow);
  }

  async dial(
    name: string,
    port: number,
    protocol: "tcp" | "udp",
    { signal }: { signal?: AbortSignal } = {},
  ) {
    const standing = best(this.#deployments.require(name).ready);
    if (this.#companions?.always && standing.length > 0) {
      const chosen = standing[this.#turn++ % standing.length];
      return await this.#companions.dial(accompanied(chosen), port, protocol, signal);
    }
    const addresses = standing.flatMap(({ made: { choice }, networks }) =>
      choice.kind === "host" ? "127.0.0.1" : networks[0]?.ip ?? []
    );
    if (addresses.length === 0) {
      const why = standing.length > 0 ? "it has no network" : "no instance runs";
      throw new SvcError("conflict", `Cannot connect to deployment ${name}: ${why}`, {
        help: "start the deployment first",
      });
    }
    return await dialInTurn(addresses, this.#turn++, port, protocol, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    this.#leftovers.stop();
    await Promise.all(this.#deployments.all.map((deployment) => deployment.release()));
    this.#events.end();
    this.#ports.stop();
    this.#options.engine.close();
    await this.#spares.stop();
    await this.#wayOut.stop();
    await this.#resolvers.stop();
    await this.#pruneNetworks({ atEnd: true });
  }
}
