/**
 * Networks of steps on a bridge of their own: steps are apart from each other, and reach the outside as on
 * docker's bridge. A network namespace is made ahead and used again by later steps, since a step cannot
 * change its network.
 */
import { join } from "node:path";
import { ensureDir } from "../base/fs.ts";
import type { Logger } from "../base/log.ts";
import { gatewayOf } from "../runtime/bridge_rules.ts";
import { cniDirs, CniPlugins } from "../runtime/cni.ts";
import type { DnsServer } from "../runtime/dns/server.ts";
import { type Attached, makeEndpoint, removeEndpoint } from "../runtime/endpoints.ts";
import { BridgeDriver, bridgeNetwork, BUILD_NETWORK } from "../runtime/network.ts";
import { pluginsEnded } from "../runtime/plugin_runs.ts";
import { ReadyPool } from "../runtime/ready_pool.ts";
import { type OwnNetworks, reachableNameservers, type StepNetwork } from "./networks.ts";

export interface BridgeNetworksOptions {
  /** SVC_CNI_BIN_DIR; below it SVC_CNI_SUBNET_BASE. */
  cniBinDir: string;
  cniSubnetBase: string;
  /** Folder of host-local's leases, shared by the servers of this host. */
  leases: string;
  /** Folder of this server's namespaces. A reboot empties it and the leases. */
  folder: string;
  log: Logger;
}

interface Endpoint {
  containerId: string;
  netns: string;
  attached?: Attached;
}

export class BridgeNetworks implements OwnNetworks {
  #options: BridgeNetworksOptions;
  #network;
  #gateway;
  #bridges: BridgeDriver;
  #pool: ReadyPool<Endpoint>;
  #resolver: DnsServer | undefined;
  /** The start of the resolver, begun once the bridge exists. */
  #resolving: Promise<void> | undefined;
  /** True once a bridge may exist. */
  #made = false;

  constructor(options: BridgeNetworksOptions) {
    const { cniBinDir, cniSubnetBase, leases, log } = options;
    this.#options = options;
    this.#network = bridgeNetwork(cniSubnetBase, BUILD_NETWORK, { apart: true });
    this.#gateway = gatewayOf(this.#network);
    const plugins = new CniPlugins(cniDirs(cniBinDir));
    this.#bridges = new BridgeDriver(plugins, leases, { resolver: true });
    this.#pool = new ReadyPool({
      make: (signal) => this.#make(signal),
      isGood: (endpoint, signal) => this.#isGood(endpoint, signal),
      remove: (endpoint) => this.#remove(endpoint),
      log,
    });
  }

  async recover(): Promise<void> {
    const { folder, log } = this.#options;
    await pluginsEnded([folder], log);
    await ensureDir(folder, 0o700);
    for await (const { name } of Deno.readDir(folder)) {
      this.#made = true;
      await this.#remove({ containerId: name, netns: join(folder, name) });
    }
    this.#pool.prepare();
  }

  async take(
    { trusted, signal }: { trusted: boolean; signal: AbortSignal },
  ): Promise<StepNetwork> {
    const endpoint = await this.#pool.take(signal);
    return {
      mode: { path: endpoint.netns },
      gateway: this.#gateway,
      names: { nameservers: this.#resolver ? [this.#gateway] : await reachableNameservers() },
      [Symbol.asyncDispose]: () => this.#pool.giveBack(endpoint, { spoiled: trusted }),
    };
  }

  async #make(signal?: AbortSignal): Promise<Endpoint> {
    await this.#bridges.preflight();
    const containerId = `ready-${crypto.randomUUID().slice(0, 8)}`;
    const endpoint: Endpoint = { containerId, netns: join(this.#options.folder, containerId) };
    this.#made = true;
    try {
      const made = await makeEndpoint(this.#bridges, endpoint, [this.#network], { signal });
      endpoint.attached = made[0];
      await (this.#resolving ??= this.#resolve());
      return endpoint;
    } catch (error) {
      await this.#remove(endpoint);
      throw error;
    }
  }

  async #isGood({ attached }: Endpoint, signal?: AbortSignal): Promise<boolean> {
    if (!this.#bridges.isAttached(this.#network, attached!.result)) return false;
    await this.#bridges.admit(this.#network, signal);
    return true;
  }

  async #remove({ attached, ...place }: Endpoint): Promise<void> {
    try {
      await removeEndpoint(this.#bridges, place, this.#network, attached?.result);
    } catch (error) {
      this.#options.log.warn("a network namespace was not removed", { ...place, error });
    }
  }

  /**
   * Starts a resolver on the bridge. Where another server of this host already answers there, steps use the
   * host's resolvers.
   */
  async #resolve(): Promise<void> {
    const hostname = this.#gateway;
    const [{ DnsServer }, { Forwarder, hostUpstreams }] = await Promise.all([
      import("../runtime/dns/server.ts"),
      import("../runtime/dns/forward.ts"),
    ]);
    const start = this.#network.subnet.replace(/0\/24$/, "");
    try {
      this.#resolver = await DnsServer.listen({
        hostname,
        port: 53,
        zone: { serves: (from) => from.startsWith(start), resolve: () => "forward" },
        forwarder: new Forwarder(() => hostUpstreams(new Set([hostname]))),
      });
    } catch (error) {
      this.#options.log.warn(`no resolver on ${hostname}:53: steps ask the host's resolvers`, {
        reason: (error as Error).message,
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { folder, log } = this.#options;
    await this.#pool.stop();
    await this.#resolver?.[Symbol.asyncDispose]();
    await Deno.remove(folder).catch(() => {/* the folder was never made, or still has entries */});
    if (!this.#made) return;
    await this.#bridges.removeNetwork(this.#network).catch((error) =>
      log.warn("the network of builds was not removed", { error })
    );
  }
}
