/** Networks by name. Each has a /24 and a bridge of its own while a deployment uses it. */
import { SvcError } from "../../base/errors.ts";
import { ensureDir, readJson, writeFileAtomic } from "../../base/fs.ts";
import { Mutex } from "../../base/mutex.ts";
import type { NetworkSpec } from "../../api/deploy_spec.ts";
import type { BridgeNetwork } from "../../runtime/bridge_network.ts";
import { type Addresses, bridgeNetwork, BUILD_NETWORK, hasBridge } from "../../runtime/network.ts";
import { foreignRoute, hostRoutes } from "../../runtime/subnets.ts";
import { ownSubnet6 } from "../../runtime/subnets6.ts";
import { dirname } from "node:path";
import { addressOn6, chooseSubnet6 } from "./networks6.ts";
import type { NetworkChoice } from "./record.ts";

/** The network of deployments that name none: svc0. */
export const DEFAULT_NETWORK = "default";

export class NetworkTable {
  readonly path: string;
  readonly base: string;
  #lock = new Mutex();

  constructor(path: string, base: string) {
    this.path = path;
    this.base = base;
  }

  /** The networks of the table by name, and the default one where it has been made. */
  async list(): Promise<Map<string, BridgeNetwork>> {
    const table = await readJson<Record<string, number>>(this.path) ?? {};
    const first = bridgeNetwork(this.base, 0);
    const all = new Map(
      Object.entries(table).map(([name, index]) => [
        name,
        bridgeNetwork(this.base, index),
      ]),
    );
    if (await hasBridge(first)) all.set(DEFAULT_NETWORK, first);
    return all;
  }

  /** The network's index in the table; a new name gets `wanted` or else the first free one. */
  index(name: string, wanted?: number): Promise<number> {
    if (name === DEFAULT_NETWORK) return Promise.resolve(0);
    return this.#lock.run(async () => {
      const table = await readJson<Record<string, number>>(this.path) ?? {};
      // Names are callers': "constructor" is one too.
      if (Object.hasOwn(table, name)) return table[name];
      const used = new Set(Object.values(table));
      const routes = await hostRoutes();
      const isFree = (index: number) =>
        !used.has(index) && !foreignRoute(routes, bridgeNetwork(this.base, index));
      if (wanted && wanted < BUILD_NETWORK && isFree(wanted)) return await this.#add(name, wanted);
      let index = 1;
      while (index < BUILD_NETWORK && !isFree(index)) index++;
      if (index === BUILD_NETWORK) {
        throw new SvcError(
          "conflict",
          `Cannot make network ${name}: all ${
            BUILD_NETWORK - 1
          } subnets of ${this.base} are in use`,
          { help: "delete deployments on other networks, or set another SVC_CNI_SUBNET_BASE" },
        );
      }
      return await this.#add(name, index);
    });
  }

  /** The caller holds the lock. */
  async #add(name: string, index: number): Promise<number> {
    const table = await readJson<Record<string, number>>(this.path) ?? {};
    await ensureDir(dirname(this.path), 0o700);
    await writeFileAtomic(this.path, JSON.stringify({ ...table, [name]: index }));
    return index;
  }

  /** The index whose /24 that is; undefined: it is none of this server's. */
  #indexOf(subnet = ""): number | undefined {
    const [, first, place] = /^(\d+\.\d+)\.(\d+)\.0\/24$/.exec(subnet) ?? [];
    return first === this.base ? Number(place) : undefined;
  }

  /**
   * Removes every unused network. The default network is removed only `atEnd`, since a spare for the next
   * deployment is prepared there. `remove` runs before the name is forgotten. A request for the same name waits
   * meanwhile, and then gets a new index.
   */
  prune(
    isUsed: (name: string, network: BridgeNetwork) => boolean,
    remove: (network: BridgeNetwork) => Promise<void>,
    { atEnd = false }: { atEnd?: boolean } = {},
  ): Promise<void> {
    return this.#lock.run(async () => {
      const table = await readJson<Record<string, number>>(this.path) ?? {};
      const first = bridgeNetwork(this.base, 0);
      if (atEnd && !isUsed(DEFAULT_NETWORK, first) && await hasBridge(first)) await remove(first);
      const kept: Record<string, number> = {};
      for (const [name, index] of Object.entries(table)) {
        const network = bridgeNetwork(this.base, index);
        if (isUsed(name, network)) kept[name] = index;
        else await remove(network);
      }
      if (Object.keys(kept).length === Object.keys(table).length) return;
      await writeFileAtomic(this.path, JSON.stringify(kept));
    });
  }

  /** A network of the deployment's own: two deployments on one network would reach each other. */
  async #wall(deployment: string): Promise<NetworkChoice> {
    const network = bridgeNetwork(this.base, await this.index(wallName(deployment)));
    return { kind: "bridges", networks: [{ network: { ...network, walled: true }, aliases: [] }] };
  }

  /**
   * Resolves a spec's `networks`, those of a higher priority first. The default route is on the network marked
   * default, else on the first, unless that is internal. All users of a network must agree on its properties:
   * `users` are all of them, `others` those of other deployments. `warn` is called for what cannot be had.
   */
  async choose(
    specs: readonly NetworkSpec[],
    { users, others, walled, warn }: {
      users: readonly NetworkChoice[];
      others: readonly NetworkChoice[];
      /** The deployment whose egress is relayed: it is alone behind a wall. Absent: it is as others are. */
      walled?: string;
      warn: (text: string) => void;
    },
  ): Promise<NetworkChoice> {
    if (walled !== undefined) return await this.#wall(walled);
    const special = specs.find((spec) => spec.name === "host" || spec.name === "none");
    if (special && specs.length > 1) {
      throw new SvcError(
        "spec_invalid",
        `Cannot attach networks: ${special.name} cannot be combined with others`,
      );
    }
    if (special) return { kind: special.name as "host" | "none" };
    const wanted: NetworkSpec[] = specs.length > 0 ? [...specs] : [{ name: DEFAULT_NETWORK }];
    const networks = await Promise.all(wanted.map(async (spec, at) => {
      const { name, subnet = "" } = spec;
      const index = await this.index(name, this.#indexOf(subnet));
      const place = bridgeNetwork(this.base, index);
      if (subnet && !subnet.includes(":") && subnet !== place.subnet) {
        warn(`networks[${at}].subnet: the network is ${place.subnet}; ${OWN_SUBNETS}`);
      }
      const subnet6 = await chooseSubnet6(spec, {
        there: onBridge(users, place).flatMap(({ network }) => network.subnet6 ?? [])[0],
        own: ownSubnet6(this.base, index),
        bridge: place.bridge,
        warn: (text) => warn(`networks[${at}].${text}`),
      });
      const network = { ...place, ...(subnet6 && { subnet6 }) };
      const addresses = addressesFor(spec, network, (text) => warn(`networks[${at}].${text}`));
      requireUnused(addresses, onBridge(others, network));
      const isInternal = spec.internal ?? onBridge(users, network).some(isInternalOne);
      requireSame(spec, isInternal, onBridge(others, network).map(({ network }) => network));
      return { spec, addresses, network: { ...network, ...(isInternal && { internal: true }) } };
    }));
    const last = ({ spec, network }: typeof networks[number]) =>
      network.internal ? 2 : spec.default ? 0 : 1;
    const priority = ({ spec }: typeof networks[number]) => spec.priority ?? 0;
    networks.sort((a, b) => last(a) - last(b) || priority(b) - priority(a));
    return {
      kind: "bridges",
      networks: networks.map(({ spec: { aliases = [] }, addresses, network }, place) => ({
        network: { ...network, secondary: place > 0 },
        aliases,
        ...addresses,
      })),
    };
  }
}

/** A name that no spec can have. */
const wallName = (deployment: string) => `egress:${deployment}`;

const OWN_SUBNETS = "subnets are the /24s of SVC_CNI_SUBNET_BASE";

/** Of one interface, and not of a group. */
const MAC = /^[0-9a-f][02468ace](:[0-9a-f]{2}){5}$/i;

/** The addresses that the spec asks for and that can be had on the network. */
function addressesFor(
  { ip, ipv6, mac }: NetworkSpec,
  network: BridgeNetwork,
  warn: (text: string) => void,
): Addresses {
  const found: Addresses = {};
  if (ipv6) {
    const { ip6, why } = addressOn6(ipv6, network.subnet6);
    if (ip6) found.ip6 = ip6;
    else warn(`ipv6: ${ipv6} ${why}`);
  }
  if (ip) {
    const [first, last] = [network.subnet.replace(/0\/24$/, ""), Number(ip.split(".").at(-1))];
    // The first and the last are the network's, and the second is the host's.
    if (ip === `${first}${last}` && last > 1 && last < 255) found.ip = ip;
    else warn(`ip: ${ip} is no workload's address on ${network.subnet}; another one is given out`);
  }
  if (mac) {
    if (MAC.test(mac)) found.mac = mac.toLowerCase();
    else warn(`mac: ${mac} is no interface's address; another one is given out`);
  }
  return found;
}

function requireUnused(wanted: Addresses, others: readonly Addresses[]): void {
  for (const kind of ["ip", "ip6", "mac"] as const) {
    const address = wanted[kind];
    if (!address || !others.some((one) => one[kind] === address)) continue;
    throw new SvcError("conflict", `Cannot attach at ${address}: another deployment has it`, {
      help: "choose another address, or leave it out",
    });
  }
}

/** Addresses that one instance at a time can have, with their network. */
export const fixedAddresses = (choice: NetworkChoice): string[] =>
  choice.kind !== "bridges"
    ? []
    : choice.networks.flatMap(({ network: { bridge }, ip, ip6, mac }) =>
      [ip, ip6, mac].filter((address) => address).map((address) => `${bridge} ${address}`)
    );

/** What those choices say of the network. */
const onBridge = (choices: readonly NetworkChoice[], { bridge }: BridgeNetwork) =>
  choices.flatMap((choice) => choice.kind === "bridges" ? choice.networks : [])
    .filter(({ network }) => network.bridge === bridge);

const isInternalOne = ({ network: { internal } }: { network: BridgeNetwork }) => internal === true;

function requireSame(
  { name }: NetworkSpec,
  internal: boolean,
  others: readonly BridgeNetwork[],
): void {
  if (name === DEFAULT_NETWORK && internal) {
    throw new SvcError(
      "spec_invalid",
      "Cannot make the default network internal: deployments that name no network are on it",
      {
        help: "give the deployment a network of another name",
      },
    );
  }
  if (others.every((network) => (network.internal ?? false) === internal)) return;
  throw new SvcError(
    "conflict",
    `Cannot attach to network ${name} as ${internal ? "an internal one" : "one that leads out"}: ` +
      `deployments are on it, and to them it ${internal ? "leads out" : "is internal"}`,
    { help: "leave internal out to take the network as it is, or name another network" },
  );
}

/** Makes a network internal for all where it is internal for one: for records of older servers. */
export function agreeOnInternal(choices: readonly NetworkChoice[]): void {
  for (const choice of choices) {
    for (const { network } of choice.kind === "bridges" ? choice.networks : []) {
      if (onBridge(choices, network).some(isInternalOne)) network.internal = true;
    }
  }
}

/** True where published ports can be reached: internal networks publish none. */
export const canPublish = (choice: NetworkChoice): boolean =>
  choice.kind === "bridges" && choice.networks.some(({ network }) => !network.internal);

/** True where the network that publishes has IPv6: the first that leads out. */
export const publishesIPv6 = (choice: NetworkChoice): boolean =>
  choice.kind === "bridges" &&
  choice.networks.find(({ network }) => !network.internal)?.network.subnet6 !== undefined;
