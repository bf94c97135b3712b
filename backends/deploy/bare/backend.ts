/** The bare backend: this host runs the workloads, through an OCI runtime and CNI, without a daemon. */
import { SvcError } from "../../../lib/base/errors.ts";
import { KeyedMutex, Mutex } from "../../../lib/base/mutex.ts";
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { ApplyResult, DeploymentStatus } from "../../../lib/api/deployment.ts";
import type { DeployBackend, LogOptions } from "../../../lib/deploy/backend.ts";
import { mergeLogs, readLog, rotateLog } from "../../../lib/deploy/log_file.ts";
import { requirePermitted } from "../../../lib/deploy/privileges.ts";
import { NamedVolumes } from "../../../lib/deploy/volumes.ts";
import { cniDirs, CniPlugins } from "../../../lib/runtime/cni.ts";
import { BridgeDriver } from "../../../lib/runtime/network.ts";
import type { Snapshotter } from "../../../lib/snapshot/snapshotter.ts";
import { applySpec, ensureRunning, type Reserve } from "./apply.ts";
import { reopenLog } from "./conmon.ts";
import { ContainerFiles } from "./container_files.ts";
import { Deployment } from "./deployment.ts";
import { dialTcp, dialUdp } from "./dial.ts";
import { execIn } from "./exec.ts";
import { ExitWatcher } from "./exits.ts";
import { type BareOptions, barePaths, type Host, type Tools } from "./host.ts";
import type { Instance } from "./instance.ts";
import { requireFreeAliases } from "./names.ts";
import { agreeOnInternal, NetworkTable, withdraw } from "./networks.ts";
import { findTools } from "./preflight.ts";
import { reconcile } from "./reconcile.ts";
import { type DeploymentRecord, emptyRecord, RecordStore } from "./record.ts";
import { Resolvers } from "./resolvers.ts";
import { Spares } from "./spares.ts";

export { validateBareRuntime } from "./preflight.ts";
export type { BareConfig, BareOptions } from "./host.ts";

/** Bytes at which a log is moved aside. */
const LOG_LIMIT = 16 * 1024 ** 2;

/** A value made once; a failure is not kept. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let value: Promise<T> | undefined;
  return () =>
    value ??= make().catch((error) => {
      value = undefined;
      throw error;
    });
}

/**
 * Opens the backend on a data directory and takes over what runs: containers that live go on, those that
 * died meanwhile are restarted by their policy, half-made ones are removed. Programs are looked for only
 * when there is something to run.
 */
export async function createBareBackend(options: BareOptions): Promise<DeployBackend> {
  const backend = new BareBackend(options);
  await backend.open();
  return backend;
}

class BareBackend implements DeployBackend {
  readonly name = "bare";
  readonly caps: DeployBackend["caps"];
  #options: BareOptions;
  #host: Host;
  #records: RecordStore;
  #deployments = new Map<string, Deployment>();
  #locks = new KeyedMutex();
  /** Choosing ports and taking them is one step for all deployments. */
  #ports = new Mutex();
  #files: ContainerFiles;

  constructor(options: BareOptions) {
    const { config, dataDir, log } = options;
    const paths = barePaths(dataDir, config.runDir);
    this.#options = options;
    this.#records = new RecordStore(paths.deployments);
    const snapshotter: () => Promise<Snapshotter> = once(options.snapshotter);
    const tools: () => Promise<Tools> = once(() =>
      findTools(config, paths, { folder: dataDir, runDir: config.runDir ?? "/run/svc" })
    );
    const host: Omit<Host, "spares"> = {
      paths,
      config,
      log,
      tools,
      snapshotter,
      exits: new ExitWatcher(paths.exits, () => this.#rotateLogs()),
      networks: new NetworkTable(paths.networks, config.cniSubnetBase),
      bridges: new BridgeDriver(new CniPlugins(cniDirs(config.cniBinDir)), paths.leases, {
        resolver: config.dns,
      }),
      resolvers: new Resolvers({
        enabled: config.dns,
        log,
        instances: () => this.#instances(),
      }),
      volumes: new NamedVolumes(paths.volumes),
    };
    this.#host = Object.assign(host, { spares: new Spares(host) });
    this.#files = new ContainerFiles(this.#host);
    this.caps = {
      exec: async (name, request, { signal } = {}) => {
        const instance = this.#pick(this.#get(name), request.instance);
        return await execIn(this.#host, instance, request, signal);
      },
    };
  }

  async ready(): Promise<void> {
    await this.#host.tools();
    await this.#host.bridges.preflight();
  }

  async open(): Promise<void> {
    for (const record of await this.#records.load()) {
      this.#deployments.set(record.name, this.#deployment(record));
    }
    agreeOnInternal(this.#instances().map(({ record }) => record.choice));
    await Promise.all(
      [...this.#deployments.values()].map((deployment) =>
        this.#locks.run(deployment.name, async () => {
          const kept = await reconcile(this.#host, deployment);
          if (!kept) this.#deployments.delete(deployment.name);
        })
      ),
    );
    const taken = this.#instances().flatMap(({ record }) => record.endpoint ?? []);
    await this.#host.spares.sweep(new Set(taken));
    await this.#pruneNetworks();
    await this.#refreshFiles();
  }

  #deployment(record: DeploymentRecord): Deployment {
    const hooks = { moved: () => this.#refreshFiles() };
    return new Deployment(this.#host, this.#records, record, hooks);
  }

  /** A network goes with its last deployment. One that cannot go now goes later. */
  async #pruneNetworks(options: { atEnd?: boolean } = {}): Promise<void> {
    const { networks, spares, resolvers, bridges, log } = this.#host;
    try {
      await networks.prune(
        (name, { bridge }) =>
          [...this.#deployments.values()].some((deployment) =>
            deployment.joining.includes(name) ||
            deployment.instances.some(({ record: { choice } }) =>
              choice.kind === "bridges" &&
              choice.networks.some(({ network }) => network.bridge === bridge)
            )
          ),
        async (network) => {
          await spares.release(network);
          await resolvers.release(network);
          await bridges.removeNetwork(network);
        },
        options,
      );
    } catch (error) {
      log.warn("an unused network was not removed", { error });
    }
  }

  #instances(): Instance[] {
    return [...this.#deployments.values()].flatMap((deployment) => deployment.instances);
  }

  async #refreshFiles(): Promise<void> {
    const instances = this.#instances();
    await this.#host.resolvers.serve(
      instances.flatMap(({ record }) => record.networks.map(({ network }) => network)),
    );
    await this.#files.refresh(instances);
  }

  #get(name: string): Deployment {
    const deployment = this.#deployments.get(name);
    if (deployment) return deployment;
    throw new SvcError("not_found", `Cannot find deployment ${name}: there is none of that name`, {
      help: "`svc ps` lists the deployments",
    });
  }

  #pick(deployment: Deployment, id?: string): Instance {
    const { ready } = deployment;
    const found = id === undefined
      ? ready.find((instance) => instance.running) ?? ready[0]
      : ready.find((instance) => instance.id === id || String(instance.record.replica) === id);
    if (found) return found;
    throw new SvcError(
      "not_found",
      id === undefined
        ? `Cannot use deployment ${deployment.name}: it has no instance`
        : `Cannot find instance ${id}: deployment ${deployment.name} has ${
          ready.map((instance) => instance.id).join(", ") || "none"
        }`,
    );
  }

  #reserve(name: string): Reserve {
    return (work) => this.#ports.run(() => work(this.#taken(name)));
  }

  #choices(own: string) {
    const of = (instances: Instance[]) => instances.map(({ record }) => record.choice);
    const others = [...this.#deployments.values()].filter(({ name }) => name !== own);
    return {
      users: of(this.#instances()),
      others: of(others.flatMap(({ instances }) => instances)),
    };
  }

  #taken(except: string) {
    return [...this.#deployments.values()].filter(({ name }) => name !== except).flatMap(
      ({ name, published }) => published.map((port) => ({ port, by: name })),
    );
  }

  apply(
    spec: DeploySpec,
    { onProgress = () => {}, mayPull, signal }: Parameters<DeployBackend["apply"]>[1] = {},
  ): Promise<ApplyResult> {
    return this.#locks.run(spec.name, async () => {
      const known = this.#deployments.get(spec.name);
      const deployment = known ?? this.#deployment(emptyRecord(spec));
      const { images } = this.#options;
      const context = {
        host: this.#host,
        images: images.forCaller?.({ mayPull }) ?? images,
        unpack: this.#options.unpack,
        reserve: this.#reserve(spec.name),
        choices: () => this.#choices(spec.name),
        onProgress,
        signal,
      };
      deployment.transient = known ? undefined : "pending";
      deployment.joining = spec.networks.map((network) => network.name);
      this.#deployments.set(spec.name, deployment);
      try {
        requireFreeAliases(spec, [...this.#deployments.values()].map(({ record }) => record.spec));
        const action = await applySpec(deployment, !known, spec, context);
        deployment.transient = undefined;
        return { action, deployment: deployment.status() };
      } catch (error) {
        if (!known) {
          this.#deployments.delete(spec.name);
          // Leftovers that could not be removed are tried again at the next start.
          if (deployment.instances.length === 0) await deployment.forget();
        }
        throw error;
      } finally {
        deployment.transient = undefined;
        deployment.joining = [];
        await this.#refreshFiles();
        if (known) await this.#pruneNetworks();
      }
    });
  }

  status(name: string): Promise<DeploymentStatus | undefined> {
    return Promise.resolve(this.#deployments.get(name)?.status());
  }

  list(): Promise<DeploymentStatus[]> {
    const all = [...this.#deployments.values()].map((deployment) => deployment.status());
    return Promise.resolve(all.sort((a, b) => a.name < b.name ? -1 : 1));
  }

  specs(): Promise<DeploySpec[]> {
    const records = [...this.#deployments.values()].map(({ record }) => record);
    // One that is being made for the first time has no image yet.
    const made = records.filter(({ hash, deleting }) => hash !== "" && !deleting);
    made.sort((a, b) => a.createdAt < b.createdAt ? -1 : 1);
    return Promise.resolve(made.map(({ spec }) => spec));
  }

  delete(name: string): Promise<boolean> {
    return this.#locks.run(name, async () => {
      const deployment = this.#deployments.get(name);
      if (!deployment) return false;
      deployment.record.deleting = true;
      // A full disk must not keep from being freed what is on it.
      await deployment.save().catch((error) =>
        this.#host.log.warn("a deployment goes without a record of it", { deployment: name, error })
      );
      await Promise.all(deployment.instances.map((instance) => instance.end()));
      await deployment.forget();
      this.#deployments.delete(name);
      await this.#refreshFiles();
      await this.#pruneNetworks();
      return true;
    });
  }

  async power(
    name: string,
    action: "start" | "stop" | "restart",
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<DeploymentStatus> {
    this.#get(name);
    return await this.#locks.run(name, async () => {
      const deployment = this.#get(name);
      // Before anything is stopped: what is refused leaves a workload as it was.
      if (action === "restart") {
        requirePermitted(deployment.record.spec, this.#host.config.allowPrivileged);
      }
      try {
        if (action !== "start") {
          deployment.transient = "stopping";
          deployment.record.stopped = action === "stop";
          try {
            await deployment.save();
          } catch (error) {
            // A stop that cannot be written down is done nevertheless; saving it again says why.
            if (action === "restart") throw error;
          }
          await Promise.all(deployment.ready.map((instance) => instance.stop()));
        }
        if (action === "stop") {
          for (const { record } of deployment.ready) await withdraw(this.#host, record);
        } else {
          deployment.transient = "creating";
          await ensureRunning(deployment, this.#reserve(name), this.#host, signal);
        }
      } finally {
        deployment.transient = undefined;
        await deployment.save();
      }
      return deployment.status();
    });
  }

  async *logs(name: string, options: LogOptions = {}) {
    const deployment = this.#get(name);
    const { instance, follow = false } = options;
    const chosen = instance === undefined ? deployment.ready : [this.#pick(deployment, instance)];
    const logs = chosen.map((one) =>
      readLog(one.logPath, one.id, { ...options, ended: () => !one.active })
    );
    yield* mergeLogs(logs, follow);
  }

  async dial(
    name: string,
    port: number,
    protocol: "tcp" | "udp",
    { signal }: { signal?: AbortSignal } = {},
  ) {
    const deployment = this.#get(name);
    const instance = deployment.ready.find((candidate) => candidate.running);
    const { choice, networks } = instance?.record ?? {};
    const address = choice?.kind === "host" ? "127.0.0.1" : networks?.[0]?.ip;
    if (!address) {
      const why = instance ? "it has no network" : "no instance runs";
      throw new SvcError("conflict", `Cannot connect to deployment ${name}: ${why}`, {
        help: "start the deployment first",
      });
    }
    return protocol === "tcp" ? await dialTcp(address, port, signal) : await dialUdp(address, port);
  }

  async #rotateLogs(): Promise<void> {
    for (const { instances } of this.#deployments.values()) {
      for (const instance of instances) {
        if (!instance.running) continue;
        await rotateLog(instance.logPath, LOG_LIMIT, () => reopenLog(instance.bundle));
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#deployments.values()].map((deployment) => deployment.release()));
    this.#host.exits.stop();
    await this.#host.spares.stop();
    await this.#host.resolvers.stop();
    await this.#pruneNetworks({ atEnd: true });
  }
}
