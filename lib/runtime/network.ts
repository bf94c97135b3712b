/** A bridge network of a host: CNI bridge with host-local addresses. */
import { SvcError } from "../base/errors.ts";
import { runOk } from "../base/process.ts";
import { BridgeRules } from "./bridge_rules.ts";
import type { CniConfig, CniPlugins, CniResult } from "./cni.ts";
import { foreignRoute, hostRoutes } from "./subnets.ts";

/** Milliseconds for which checked rules count as right, where a container is to start soon. */
const RECENT = 30_000;

export interface BridgeNetwork {
  /** Name in leases and rules. */
  name: string;
  /** Interface on the host, at most 15 characters. */
  bridge: string;
  /** "10.4.0.0/24". */
  subnet: string;
  /** The network reaches nothing beyond its bridge, not even the host; the host reaches the network. */
  internal?: boolean;
  /**
   * Nothing on the network opens a connection beyond the bridge, not even to the host; connections from outside
   * come in, and are answered.
   */
  walled?: boolean;
  /** Containers on the bridge cannot reach each other. */
  apart?: boolean;
  /** The container's default route is on another of its networks. */
  secondary?: boolean;
  mtu?: number;
}

interface PublishedPort {
  hostIP: string;
  host: number;
  container: number;
  protocol: "tcp" | "udp" | "sctp";
}

export interface Attachment {
  /** Address without prefix. */
  ip: string;
  gateway?: string;
  result: CniResult;
}

/** What an attachment is to have; absent: it is given out. */
export interface Addresses {
  /** An address of the network's subnet. */
  ip?: string;
  mac?: string;
}

export interface Endpoint extends Addresses {
  containerId: string;
  netns: string;
  ifname: string;
}

/** Words of host-local for an address that it cannot give out: none is left, or it is somebody else's. */
const NO_ADDRESS = /no IP addresses available|requested IP|is not available/i;

/** Runs the plugins of one host. `leases`: host-local's folder, which must not outlive a reboot. */
export class BridgeDriver {
  readonly plugins: CniPlugins;
  readonly leases: string;
  #rules: BridgeRules;
  /** When each bridge's rules were last checked. */
  #looked = new Map<string, number>();

  /** `resolver`: the host answers the containers' DNS on the bridges. */
  constructor(plugins: CniPlugins, leases: string, options: { resolver?: boolean } = {}) {
    this.plugins = plugins;
    this.leases = leases;
    this.#rules = new BridgeRules(options);
  }

  /** Throws `prerequisite_missing` where a plugin is missing. */
  async preflight(): Promise<void> {
    for (const name of ["bridge", "host-local", "loopback"]) {
      await this.plugins.find(name);
    }
  }

  async loopback(endpoint: Omit<Endpoint, "ifname">, signal?: AbortSignal): Promise<void> {
    const config = { type: "loopback", name: "lo" };
    await this.plugins.add({ ...endpoint, ifname: "lo", config, signal });
  }

  #config(network: BridgeNetwork, { ip, mac }: Addresses = {}): CniConfig {
    const bits = network.subnet.slice(network.subnet.indexOf("/"));
    return {
      name: network.name,
      type: "bridge",
      bridge: network.bridge,
      isGateway: true,
      // The rules are per network, not per container: see BridgeRules.
      ipMasq: false,
      hairpinMode: !network.apart,
      ...(network.mtu && { mtu: network.mtu }),
      ...((ip || mac) && {
        runtimeConfig: { ...(ip && { ips: [`${ip}${bits}`] }), ...(mac && { mac }) },
      }),
      ipam: {
        type: "host-local",
        dataDir: this.leases,
        ranges: [[{ subnet: network.subnet }]],
        ...(!network.internal && !network.secondary && { routes: [{ dst: "0.0.0.0/0" }] }),
      },
    };
  }

  /** Not idempotent: the caller detaches first. Throws `conflict` where no address can be had. */
  async attach(
    network: BridgeNetwork,
    { ip, mac, ...endpoint }: Endpoint,
    signal?: AbortSignal,
  ): Promise<Attachment> {
    await removeHalfMade(network);
    if (!await hasBridge(network)) await requireUnrouted(network);
    const config = this.#config(network, { ip, mac });
    const [attached, filtered] = await Promise.all([
      this.plugins.add({ ...endpoint, config, signal }).catch((error) => {
        throw withoutAddress(error, network, ip);
      }),
      this.#rules.ensure(network, signal),
    ]);
    await prepareBridge(network);
    if (network.apart) await keepApart(network, attached);
    this.#looked.set(network.bridge, performance.now());
    const result = filtered
      ? await this.#exempt("add", network, endpoint, attached, signal)
      : attached;
    const first = result.ips?.[0];
    return { ip: first?.address.split("/")[0] ?? "", gateway: first?.gateway, result };
  }

  /**
   * Brings the host's rules up to date for an endpoint that was attached earlier. Rules that were checked
   * within half a minute count as right.
   */
  async admit(
    network: BridgeNetwork,
    endpoint: Endpoint,
    result: CniResult,
    signal?: AbortSignal,
  ): Promise<void> {
    if (performance.now() - (this.#looked.get(network.bridge) ?? -Infinity) < RECENT) return;
    if (await this.#rules.ensure(network, signal)) {
      await this.#exempt("add", network, endpoint, result, signal);
    }
    this.#looked.set(network.bridge, performance.now());
  }

  /** Adds the container's exception from filtered forwarding; adding it twice is harmless. */
  async #exempt(
    command: "add" | "del",
    network: BridgeNetwork,
    endpoint: Endpoint,
    prevResult: CniResult,
    signal?: AbortSignal,
  ): Promise<CniResult> {
    const config = { name: network.name, type: "firewall" };
    return await this.plugins[command]({ ...endpoint, config, prevResult, signal }) ?? prevResult;
  }

  /** Idempotent, also where the namespace is gone. */
  async detach(network: BridgeNetwork, endpoint: Endpoint, result?: CniResult): Promise<void> {
    if (result && await this.#rules.filtered()) {
      await this.#exempt("del", network, endpoint, result);
    }
    await this.plugins.del({ ...endpoint, config: this.#config(network), prevResult: result });
  }

  /** True where the attachment's interface is still on the network's bridge. */
  isAttached(network: BridgeNetwork, result: CniResult): boolean {
    const outer = result.interfaces?.find(({ name, sandbox }) =>
      !sandbox && name !== network.bridge
    );
    if (!outer) return false;
    try {
      Deno.statSync(`/sys/class/net/${network.bridge}/brif/${outer.name}`);
      return true;
    } catch {
      return false;
    }
  }

  /** Removes a network's bridge and rules, unless a container is attached. Idempotent. */
  async removeNetwork(network: BridgeNetwork): Promise<void> {
    this.#looked.delete(network.bridge);
    const ports = `/sys/class/net/${network.bridge}/brif`;
    let attached: Deno.DirEntry[];
    try {
      attached = await Array.fromAsync(Deno.readDir(ports));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      return await this.#rules.remove(network);
    }
    if (attached.length > 0) return;
    await runOk("Cannot remove a network", "ip", ["link", "delete", network.bridge]);
    await this.#rules.remove(network);
  }

  /** Removes the portmap plugin's rules for published ports, made by earlier versions of the server. Idempotent. */
  async unmap(
    network: BridgeNetwork,
    endpoint: Endpoint,
    prevResult: CniResult,
    ports: readonly PublishedPort[],
  ): Promise<void> {
    const portMappings = ports.map(({ hostIP, host: hostPort, container, protocol }) => ({
      hostIP,
      hostPort,
      containerPort: container,
      protocol,
    }));
    const config = {
      name: network.name,
      type: "portmap",
      snat: false,
      capabilities: { portMappings: true },
      runtimeConfig: { portMappings },
    };
    await this.plugins.del({ ...endpoint, config, prevResult });
  }
}

/**
 * Allows packets from 127.0.0.1 to be translated onto the bridge; BridgeRules guards the reverse way. The host
 * gets no IPv6 address on the bridge, because no rule covers IPv6.
 */
async function prepareBridge({ bridge, apart }: BridgeNetwork): Promise<void> {
  const set = async (path: string) => {
    // Our own: the kernel's switch.
    if ((await Deno.readTextFile(path)).trim() !== "1") await Deno.writeTextFile(path, "1");
  };
  if (!apart) await set(`/proc/sys/net/ipv4/conf/${bridge}/route_localnet`);
  const ipv6 = `/proc/sys/net/ipv6/conf/${bridge}/disable_ipv6`;
  // A kernel without IPv6 has nothing to switch off.
  await set(ipv6).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/** Isolates the port: its frames go to the bridge only, not to other isolated ports. */
async function keepApart({ bridge }: BridgeNetwork, { interfaces }: CniResult): Promise<void> {
  const port = interfaces?.find(({ name, sandbox }) => !sandbox && name !== bridge)?.name ?? "";
  const args = ["link", "set", "dev", port, "type", "bridge_slave", "isolated", "on"];
  await runOk("Cannot keep containers apart", "ip", args);
}

/** The plugin's error, told as what it is where it could give no address. */
function withoutAddress(error: Error, { name, subnet }: BridgeNetwork, ip?: string): Error {
  if (!NO_ADDRESS.test(error.message)) return error;
  const what = ip ? `its address ${ip} is in use` : `all addresses of ${subnet} are in use`;
  return new SvcError("conflict", `Cannot attach to network ${name}: ${what}`, {
    cause: error,
    help: ip
      ? "choose another address, or delete the deployment that has it"
      : "delete deployments on the network, or deploy on another one",
  });
}

/** Throws `conflict` where the host leads the network's addresses elsewhere: the bridge would take them over. */
async function requireUnrouted(network: BridgeNetwork): Promise<void> {
  const route = foreignRoute(await hostRoutes(), network);
  if (!route) return;
  throw new SvcError(
    "conflict",
    `Cannot make network ${network.name}: the host has a route into ${network.subnet}: ${route.text}`,
    { help: "set SVC_CNI_SUBNET_BASE to a range that is free on this host" },
  );
}

/**
 * A plugin that was killed half way leaves a bridge that loses its MAC address with its last port. No plugin can
 * use it any more.
 */
async function removeHalfMade({ bridge }: BridgeNetwork): Promise<void> {
  // Our own: the kernel's file.
  const address = await Deno.readTextFile(`/sys/class/net/${bridge}/address`).catch(() => "");
  if (address.trim() !== "00:00:00:00:00:00") return;
  await runOk("Cannot remove a half-made bridge", "ip", ["link", "delete", bridge]);
}

/** True where the network's bridge is on this host. */
export const hasBridge = ({ bridge }: BridgeNetwork): Promise<boolean> =>
  Deno.stat(`/sys/class/net/${bridge}`).then(() => true, () => false);

/** The index of the network for builds. */
export const BUILD_NETWORK = 255;

/** True for names from {@linkcode bridgeNetwork}, of any server of this host. */
export const isOwnBridge = (name: string): boolean => /^svc(\d+|-\d+-\d+-\d+)$/.test(name);

/** The n-th /24 below a two-part base: base "10.4", index 3 is 10.4.3.0/24 on bridge svc3. */
export function bridgeNetwork(
  base: string,
  index: number,
  options: Pick<BridgeNetwork, "internal" | "apart"> = {},
): BridgeNetwork {
  // Another base belongs to another server's networks: its bridges need names of their own.
  const bridge = base === "10.4" ? `svc${index}` : `svc-${base.replace(".", "-")}-${index}`;
  return { name: bridge, bridge, subnet: `${base}.${index}.0/24`, ...options };
}
