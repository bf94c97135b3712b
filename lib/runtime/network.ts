/** A bridge network of a host: CNI bridge with host-local addresses, and portmap for published ports. */
import { runOk } from "../base/process.ts";
import { BridgeRules } from "./bridge_rules.ts";
import type { CniConfig, CniPlugins, CniResult } from "./cni.ts";

/** For how long rules are not looked over again where a container is to start soon, in milliseconds. */
const RECENT = 30_000;

export interface BridgeNetwork {
  /** Name in leases and rules. */
  name: string;
  /** Interface on the host, at most 15 characters. */
  bridge: string;
  /** "10.4.0.0/24". */
  subnet: string;
  /** Nothing beyond the bridge is reached, the host neither; it reaches what is on the bridge. */
  internal?: boolean;
  /** What is on the bridge does not reach each other. */
  apart?: boolean;
  /** Another network of the container has the default route. */
  secondary?: boolean;
  mtu?: number;
}

export interface PortMapping {
  hostIP: string;
  hostPort: number;
  containerPort: number;
  protocol: "tcp" | "udp" | "sctp";
}

export interface Attachment {
  /** Address without prefix. */
  ip: string;
  gateway?: string;
  result: CniResult;
}

export interface Endpoint {
  containerId: string;
  netns: string;
  ifname: string;
}

/** Drives the plugins for one host. `leases` is host-local's folder: it must not outlive a reboot. */
export class BridgeDriver {
  readonly plugins: CniPlugins;
  readonly leases: string;
  #rules: BridgeRules;
  /** When each bridge's rules were last looked over. */
  #looked = new Map<string, number>();

  /** `resolver`: the host answers the containers' DNS on the bridges. */
  constructor(plugins: CniPlugins, leases: string, options: { resolver?: boolean } = {}) {
    this.plugins = plugins;
    this.leases = leases;
    this.#rules = new BridgeRules(options);
  }

  /** Throws `prerequisite_missing` where a plugin is not there. */
  async preflight(): Promise<void> {
    for (const name of ["bridge", "host-local", "loopback", "portmap"]) {
      await this.plugins.find(name);
    }
  }

  async loopback(endpoint: Omit<Endpoint, "ifname">, signal?: AbortSignal): Promise<void> {
    const config = { type: "loopback", name: "lo" };
    await this.plugins.add({ ...endpoint, ifname: "lo", config, signal });
  }

  #config(network: BridgeNetwork): CniConfig {
    return {
      name: network.name,
      type: "bridge",
      bridge: network.bridge,
      isGateway: true,
      // Rules are the network's, not each container's: BridgeRules.
      ipMasq: false,
      hairpinMode: !network.apart,
      ...(network.mtu && { mtu: network.mtu }),
      ipam: {
        type: "host-local",
        dataDir: this.leases,
        ranges: [[{ subnet: network.subnet }]],
        ...(!network.internal && !network.secondary && { routes: [{ dst: "0.0.0.0/0" }] }),
      },
    };
  }

  #portmap(network: BridgeNetwork, ports: PortMapping[]): CniConfig {
    return {
      name: network.name,
      type: "portmap",
      snat: false,
      capabilities: { portMappings: true },
      runtimeConfig: { portMappings: ports },
    };
  }

  /** Not idempotent: the caller detaches first. */
  async attach(
    network: BridgeNetwork,
    endpoint: Endpoint,
    signal?: AbortSignal,
  ): Promise<Attachment> {
    const config = this.#config(network);
    const [attached, filtered] = await Promise.all([
      this.plugins.add({ ...endpoint, config, signal }),
      this.#rules.ensure(network, signal),
    ]);
    await prepareBridge(network);
    if (network.apart) await keepApart(network, attached);
    this.#looked.set(network.bridge, Date.now());
    const result = filtered
      ? await this.#exempt("add", network, endpoint, attached, signal)
      : attached;
    const first = result.ips?.[0];
    return { ip: first?.address.split("/")[0] ?? "", gateway: first?.gateway, result };
  }

  /**
   * Brings the host's rules up to date for an endpoint that was attached a while ago; rules that were
   * looked over within half a minute are taken to be right.
   */
  async admit(
    network: BridgeNetwork,
    endpoint: Endpoint,
    result: CniResult,
    signal?: AbortSignal,
  ): Promise<void> {
    if (Date.now() - (this.#looked.get(network.bridge) ?? 0) < RECENT) return;
    if (await this.#rules.ensure(network, signal)) {
      await this.#exempt("add", network, endpoint, result, signal);
    }
    this.#looked.set(network.bridge, Date.now());
  }

  /** The exception from filtered forwarding; adding it twice is fine. */
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

  /** Idempotent, with or without the namespace. */
  async detach(network: BridgeNetwork, endpoint: Endpoint, result?: CniResult): Promise<void> {
    if (result && await this.#rules.filtered()) {
      await this.#exempt("del", network, endpoint, result);
    }
    await this.plugins.del({ ...endpoint, config: this.#config(network), prevResult: result });
  }

  /** True where the attachment's interface is still on the network's bridge. */
  async isAttached(network: BridgeNetwork, result: CniResult): Promise<boolean> {
    const outer = result.interfaces?.find(({ name, sandbox }) =>
      !sandbox && name !== network.bridge
    );
    if (!outer) return false;
    const path = `/sys/class/net/${network.bridge}/brif/${outer.name}`;
    return await Deno.stat(path).then(() => true, () => false);
  }

  /** Takes bridge and rules of a network away, unless something is attached. Idempotent. */
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

  /**
   * Leads the host's ports to the endpoint. Rules of an earlier endpoint for the same port win until
   * they are withdrawn, so publishing the new one first and withdrawing the old one then leaves no gap.
   */
  async publish(
    network: BridgeNetwork,
    endpoint: Endpoint,
    attachment: CniResult,
    ports: PortMapping[],
    signal?: AbortSignal,
  ): Promise<void> {
    if (ports.length === 0) return;
    const config = this.#portmap(network, ports);
    await this.plugins.add({ ...endpoint, config, prevResult: attachment, signal });
  }

  /** Idempotent. */
  async withdraw(
    network: BridgeNetwork,
    endpoint: Endpoint,
    attachment: CniResult | undefined,
    ports: PortMapping[],
  ): Promise<void> {
    if (ports.length === 0) return;
    const config = this.#portmap(network, ports);
    await this.plugins.del({ ...endpoint, config, prevResult: attachment });
  }
}

/**
 * Lets what is sent from 127.0.0.1 be translated onto the bridge; BridgeRules guards the other way. The
 * host has no IPv6 address there: no rule is about one.
 */
async function prepareBridge({ bridge, apart }: BridgeNetwork): Promise<void> {
  const set = async (path: string) => {
    // Our own: the kernel's switch.
    if ((await Deno.readTextFile(path)).trim() !== "1") await Deno.writeTextFile(path, "1");
  };
  if (!apart) await set(`/proc/sys/net/ipv4/conf/${bridge}/route_localnet`);
  const ipv6 = `/proc/sys/net/ipv6/conf/${bridge}/disable_ipv6`;
  // A kernel without IPv6 has none to switch off.
  await set(ipv6).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/** Frames of such a port go to the bridge itself only, not to another of the kind. */
async function keepApart({ bridge }: BridgeNetwork, { interfaces }: CniResult): Promise<void> {
  const port = interfaces?.find(({ name, sandbox }) => !sandbox && name !== bridge)?.name ?? "";
  const args = ["link", "set", "dev", port, "type", "bridge_slave", "isolated", "on"];
  await runOk("Cannot keep containers apart", "ip", args);
}

/** True where the network's bridge is on this host. */
export const hasBridge = ({ bridge }: BridgeNetwork): Promise<boolean> =>
  Deno.stat(`/sys/class/net/${bridge}`).then(() => true, () => false);

/** The place of the network that builds have. */
export const BUILD_NETWORK = 255;

/** True for names that {@linkcode bridgeNetwork} gives, of any server of this host. */
export const isOwnBridge = (name: string): boolean => /^svc(\d+|-\d+-\d+-\d+)$/.test(name);

/** The n-th /24 below a two-part base: base "10.4", index 3 is 10.4.3.0/24 on bridge svc3. */
export function bridgeNetwork(
  base: string,
  index: number,
  options: Pick<BridgeNetwork, "internal" | "apart"> = {},
): BridgeNetwork {
  // Another base means another server's networks: its bridges need names of their own.
  const bridge = base === "10.4" ? `svc${index}` : `svc-${base.replace(".", "-")}-${index}`;
  return { name: bridge, bridge, subnet: `${base}.${index}.0/24`, ...options };
}
