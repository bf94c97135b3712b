/** A bridge network of a host: CNI bridge with host-local addresses. */
import { SvcError } from "../base/errors.ts";
import { run, runOk } from "../base/process.ts";
import { BridgeRules } from "./bridge_rules.ts";
import type { CniConfig, CniPlugins, CniResult } from "./cni.ts";
import type { BridgeNetwork } from "./bridge_network.ts";
import { forward } from "./forwarding.ts";
import { foreignRoute, hostRoutes } from "./subnets.ts";
import { foreignRoute6, hostRoutes6 } from "./subnets6.ts";

/** Milliseconds for which checked rules count as right, where a container is to start soon. */
const RECENT = 30_000;

export interface Attachment {
  /** Address without prefix. */
  ip: string;
  gateway?: string;
  /** As `ip`, on a network with IPv6. */
  ip6?: string;
  result: CniResult;
}

/** What an attachment is to have; absent: it is given out. */
export interface Addresses {
  /** An address of the network's subnet. */
  ip?: string;
  /** One of its IPv6 subnet. */
  ip6?: string;
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
  #tell: (text: string) => void;

  /**
   * `resolver`: the host answers the containers' DNS on the bridges. `tell`: called where a setting of the whole
   * host was changed.
   */
  constructor(
    plugins: CniPlugins,
    leases: string,
    options: { resolver?: boolean; tell?: (text: string) => void } = {},
  ) {
    this.plugins = plugins;
    this.leases = leases;
    this.#rules = new BridgeRules(options);
    this.#tell = options.tell ?? (() => {});
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

  #config(network: BridgeNetwork, { ip, ip6, mac }: Addresses = {}): CniConfig {
    const { subnet, subnet6 } = network;
    const bits = (subnet: string) => subnet.slice(subnet.indexOf("/"));
    const ips = [
      ...(ip ? [ip + bits(subnet)] : []),
      ...(ip6 && subnet6 ? [ip6 + bits(subnet6)] : []),
    ];
    const leads = !network.internal && !network.secondary;
    return {
      name: network.name,
      type: "bridge",
      bridge: network.bridge,
      isGateway: true,
      // The rules are per network, not per container: see BridgeRules.
      ipMasq: false,
      hairpinMode: !network.apart,
      ...(network.mtu && { mtu: network.mtu }),
      ...((ips.length > 0 || mac) && {
        runtimeConfig: { ...(ips.length > 0 && { ips }), ...(mac && { mac }) },
      }),
      ipam: {
        type: "host-local",
        dataDir: this.leases,
        ranges: [[{ subnet }], ...(subnet6 ? [[{ subnet: subnet6 }]] : [])],
        ...(leads && {
          routes: [{ dst: "0.0.0.0/0" }, ...(subnet6 ? [{ dst: "::/0" }] : [])],
        }),
      },
    };
  }

  /** Not idempotent: the caller detaches first. Throws `conflict` where no address can be had. */
  async attach(
    network: BridgeNetwork,
    { ip, ip6, mac, ...endpoint }: Endpoint,
    signal?: AbortSignal,
  ): Promise<Attachment> {
    await removeHalfMade(network);
    const there = await hasBridge(network);
    if (!there) await requireUnrouted(network);
    await forward(4, this.#tell);
    if (network.subnet6) {
      await forward(6, this.#tell);
      if (!there) await makeBridge(network);
      await switchIPv6(network);
    }
    const config = this.#config(network, { ip, ip6, mac });
    const [result] = await Promise.all([
      this.plugins.add({ ...endpoint, config, signal }).catch((error) => {
        throw withoutAddress(error, network, { ip, ip6 });
      }),
      this.#rules.ensure(network, signal),
    ]);
    await prepareBridge(network);
    if (network.apart) await keepApart(network, result);
    this.#looked.set(network.bridge, performance.now());
    const of = (six: boolean) => result.ips?.find(({ address }) => address.includes(":") === six);
    const plain = (six: boolean) => of(six)?.address.split("/")[0];
    const second = network.subnet6 ? plain(true) : undefined;
    return {
      ip: plain(false) ?? "",
      gateway: of(false)?.gateway,
      result,
      ...(second && { ip6: second }),
    };
  }

  /**
   * Brings the host's rules up to date for an endpoint that was attached earlier. Rules that were checked
   * within half a minute count as right.
   */
  async admit(network: BridgeNetwork, signal?: AbortSignal): Promise<void> {
    if (performance.now() - (this.#looked.get(network.bridge) ?? -Infinity) < RECENT) return;
    await this.#rules.ensure(network, signal);
    this.#looked.set(network.bridge, performance.now());
  }

  /** Idempotent, also where the namespace is gone. */
  async detach(network: BridgeNetwork, endpoint: Endpoint, result?: CniResult): Promise<void> {
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
      return await this.#rules.remove(network, { both: network.subnet6 !== undefined });
    }
    if (attached.length > 0) return;
    const both = await isIPv6On(network);
    await runOk("Cannot remove a network", "ip", ["link", "delete", network.bridge]);
    await this.#rules.remove(network, { both });
  }
}

/**
 * Allows packets from 127.0.0.1 to be translated onto the bridge; BridgeRules guards the reverse way. The host
 * gets no IPv6 address on the bridge of a network without IPv6, because no rule covers it.
 */
async function prepareBridge(network: BridgeNetwork): Promise<void> {
  const { bridge, apart } = network;
  if (!apart) await setSwitch(`/proc/sys/net/ipv4/conf/${bridge}/route_localnet`, "1");
  await switchIPv6(network);
}

async function setSwitch(path: string, value: "0" | "1"): Promise<void> {
  // Our own: the kernel's switch.
  if ((await Deno.readTextFile(path)).trim() !== value) await Deno.writeTextFile(path, value);
}

const isIPv6On = ({ bridge }: BridgeNetwork) =>
  // Our own: the kernel's switch.
  Deno.readTextFile(`/proc/sys/net/ipv6/conf/${bridge}/disable_ipv6`)
    .then((text) => text.trim() === "0", () => false);

/** Before the plugin does: its address is to be usable at once, without a look for others that have it. */
async function makeBridge(network: BridgeNetwork): Promise<void> {
  const { code, stderr } = await run("ip", ["link", "add", network.bridge, "type", "bridge"]);
  // Another instance may have made it meanwhile.
  if (code === 0 || await hasBridge(network)) return;
  throw new SvcError("internal", `Cannot make network ${network.name}: ${stderr.trim()}`);
}

/** Once on, it stays on: others on the network may have addresses. */
async function switchIPv6({ bridge, subnet6 }: BridgeNetwork): Promise<void> {
  const folder = `/proc/sys/net/ipv6/conf/${bridge}`;
  try {
    if (!subnet6) {
      if (!await hasAddress6(bridge)) await setSwitch(`${folder}/disable_ipv6`, "1");
      return;
    }
    // A workload is no router for the host.
    for (const name of ["accept_ra", "accept_redirects", "accept_dad"]) {
      await setSwitch(`${folder}/${name}`, "0");
    }
    await setSwitch(`${folder}/disable_ipv6`, "0");
  } catch (error) {
    // A kernel without IPv6 has nothing to switch off.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** True where the bridge has an address of a network's: link-local ones do not count. */
async function hasAddress6(bridge: string): Promise<boolean> {
  const text = await Deno.readTextFile("/proc/net/if_inet6").catch(() => "");
  return text.split("\n").some((line) => {
    const words = line.trim().split(/\s+/);
    return words[5] === bridge && !words[0].startsWith("fe80");
  });
}

/** Isolates the port: its frames go to the bridge only, not to other isolated ports. */
async function keepApart({ bridge }: BridgeNetwork, { interfaces }: CniResult): Promise<void> {
  const port = interfaces?.find(({ name, sandbox }) => !sandbox && name !== bridge)?.name ?? "";
  const args = ["link", "set", "dev", port, "type", "bridge_slave", "isolated", "on"];
  await runOk("Cannot keep containers apart", "ip", args);
}

/** The plugin's error, told as what it is where it could give no address. */
function withoutAddress(
  error: Error,
  { name, subnet }: BridgeNetwork,
  { ip, ip6 }: Addresses,
): Error {
  if (!NO_ADDRESS.test(error.message)) return error;
  const asked = [ip, ip6].filter(Boolean).join(" or ");
  const what = asked ? `its address ${asked} is in use` : `all addresses of ${subnet} are in use`;
  return new SvcError("conflict", `Cannot attach to network ${name}: ${what}`, {
    cause: error,
    help: asked
      ? "choose another address, or delete the deployment that has it"
      : "delete deployments on the network, or deploy on another one",
  });
}

/** Throws `conflict` where the host leads the network's addresses elsewhere: the bridge would take them over. */
async function requireUnrouted(network: BridgeNetwork): Promise<void> {
  const { name, bridge, subnet, subnet6 } = network;
  const route = foreignRoute(await hostRoutes(), network)?.text;
  const route6 = subnet6 && foreignRoute6(await hostRoutes6(), { bridge, subnet6 });
  if (!route && !route6) return;
  throw new SvcError(
    "conflict",
    `Cannot make network ${name}: the host has a route into ${route ? subnet : subnet6}: ${
      route ?? route6
    }`,
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

// Another base belongs to another server's networks: its bridges need names of their own.
const bridgePrefix = (base: string) => base === "10.4" ? "svc" : `svc-${base.replace(".", "-")}-`;

/** True for the names from {@linkcode bridgeNetwork} with that base. */
export const isBridgeOf = (base: string, name: string): boolean =>
  name.startsWith(bridgePrefix(base)) && /^\d+$/.test(name.slice(bridgePrefix(base).length));

/** The n-th /24 below a two-part base: base "10.4", index 3 is 10.4.3.0/24 on bridge svc3. */
export function bridgeNetwork(
  base: string,
  index: number,
  options: Pick<BridgeNetwork, "internal" | "apart"> = {},
): BridgeNetwork {
  const bridge = `${bridgePrefix(base)}${index}`;
  return { name: bridge, bridge, subnet: `${base}.${index}.0/24`, ...options };
}
