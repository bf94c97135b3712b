/** Networks by name: each has a /24 and a bridge of its own for as long as a deployment uses it. */
import { SvcError } from "../../../lib/base/errors.ts";
import { ensureDir, readJson, writeFileAtomic } from "../../../lib/base/fs.ts";
import { Mutex } from "../../../lib/base/mutex.ts";
import type { NetworkSpec } from "../../../lib/api/deploy_spec.ts";
import { makeEndpoint } from "../../../lib/runtime/endpoints.ts";
import { hasNetns, removeNetns } from "../../../lib/runtime/netns.ts";
import {
  type BridgeNetwork,
  bridgeNetwork,
  BUILD_NETWORK,
  hasBridge,
  type PortMapping,
} from "../../../lib/runtime/network.ts";
import { dirname, join } from "node:path";
import type { Host } from "./host.ts";
import type { InstanceRecord, NetworkAttachment, NetworkChoice } from "./record.ts";

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

  /** The place of a network in the table; a new name gets the first that is free. */
  index(name: string): Promise<number> {
    if (name === DEFAULT_NETWORK) return Promise.resolve(0);
    return this.#lock.run(async () => {
      const table = await readJson<Record<string, number>>(this.path) ?? {};
      if (table[name] !== undefined) return table[name];
      const used = new Set(Object.values(table));
      let index = 1;
      while (used.has(index)) index++;
      if (index >= BUILD_NETWORK) {
        throw new SvcError(
          "conflict",
          `Cannot make network ${name}: ${BUILD_NETWORK - 1} networks exist already`,
        );
      }
      await ensureDir(dirname(this.path), 0o700);
      await writeFileAtomic(this.path, JSON.stringify({ ...table, [name]: index }));
      return index;
    });
  }

  /**
   * Takes away every network that nobody uses; the default one goes `atEnd` only, since the next deployment
   * is prepared for on it. `remove` is run before the name is forgotten. A name that is asked for meanwhile
   * waits, and is then given a place again.
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

  /**
   * What a spec's `networks` mean. The one marked default, else the first, has the default route, unless it
   * is internal. A network is what it is for all who are on it: `users` and, of other deployments, `others`.
   */
  async choose(
    specs: readonly NetworkSpec[],
    { users, others }: { users: readonly NetworkChoice[]; others: readonly NetworkChoice[] },
  ): Promise<NetworkChoice> {
    const special = specs.find((spec) => spec.name === "host" || spec.name === "none");
    if (special && specs.length > 1) {
      throw new SvcError(
        "spec_invalid",
        `Cannot attach networks: ${special.name} cannot be combined with others`,
      );
    }
    if (special) return { kind: special.name as "host" | "none" };
    const wanted: NetworkSpec[] = specs.length > 0 ? [...specs] : [{ name: DEFAULT_NETWORK }];
    const networks = await Promise.all(wanted.map(async (spec) => {
      const network = bridgeNetwork(this.base, await this.index(spec.name));
      const isInternal = spec.internal ?? onBridge(users, network).some(({ internal }) => internal);
      requireSame(spec, isInternal, onBridge(others, network));
      return { spec, network: { ...network, ...(isInternal && { internal: true }) } };
    }));
    const last = ({ spec, network }: typeof networks[number]) =>
      network.internal ? 2 : spec.default ? 0 : 1;
    networks.sort((a, b) => last(a) - last(b));
    return {
      kind: "bridges",
      networks: networks.map(({ spec: { aliases = [] }, network }, place) => ({
        network: { ...network, secondary: place > 0 },
        aliases,
      })),
    };
  }
}

/** The network as those choices have it. */
const onBridge = (choices: readonly NetworkChoice[], { bridge }: BridgeNetwork) =>
  choices.flatMap((choice) => choice.kind === "bridges" ? choice.networks : [])
    .map(({ network }) => network).filter((network) => network.bridge === bridge);

function requireSame(
  { name }: NetworkSpec,
  internal: boolean,
  others: readonly BridgeNetwork[],
): void {
  if (name === DEFAULT_NETWORK && internal) {
    throw new SvcError("spec_invalid", "Cannot make the default network internal", {
      help: "give the deployment a network of another name",
    });
  }
  if (others.every((network) => (network.internal ?? false) === internal)) return;
  throw new SvcError(
    "conflict",
    `Cannot attach to network ${name} as ${internal ? "an internal one" : "one that leads out"}: ` +
      `deployments are on it, and to them it ${internal ? "leads out" : "is internal"}`,
    { help: "leave internal out to take the network as it is, or name another network" },
  );
}

/** Internal for one is internal for all: of records that an older server wrote. */
export function agreeOnInternal(choices: readonly NetworkChoice[]): void {
  for (const choice of choices) {
    for (const { network } of choice.kind === "bridges" ? choice.networks : []) {
      if (onBridge(choices, network).some(({ internal }) => internal)) network.internal = true;
    }
  }
}

/** True where published ports can be reached: nothing is published on internal networks. */
export const canPublish = (choice: NetworkChoice): boolean =>
  choice.kind === "bridges" && choice.networks.some(({ network }) => !network.internal);

export const netnsPath = (host: Host, { endpoint, key }: InstanceRecord): string =>
  endpoint ? join(host.paths.spares, endpoint) : join(host.paths.netns, key);

const mappings = (record: InstanceRecord): PortMapping[] =>
  record.ports.map(({ hostIP, host, container, protocol }) => ({
    hostIP,
    hostPort: host,
    containerPort: container,
    protocol,
  }));

const endpoint = (host: Host, record: InstanceRecord, ifname: string) => ({
  containerId: record.endpoint ?? record.key,
  netns: netnsPath(host, record),
  ifname,
});

/** The chosen networks, in a new namespace or one made ahead; `ready` is called once it exists. */
export async function connect(
  host: Host,
  record: InstanceRecord,
  ready: () => void,
  signal?: AbortSignal,
): Promise<void> {
  const { choice } = record;
  if (choice.kind !== "bridges") return ready();
  if (record.networks.length > 0) return ready();
  const networks = choice.networks.map(({ network }) => network);
  const place = endpoint(host, record, "");
  const made = await makeEndpoint(host.bridges, place, networks, { ready, signal });
  record.networks = made.map((attached, index) => ({
    ...attached,
    aliases: choice.networks[index].aliases,
  }));
}

/** Brings the host's rules up to date for what was attached ahead: they may have changed since. */
export async function admit(
  host: Host,
  record: InstanceRecord,
  signal?: AbortSignal,
): Promise<void> {
  for (const { network, ifname, result } of record.networks) {
    await host.bridges.admit(network, endpoint(host, record, ifname), result, signal);
  }
}

/** Network, interface and result of each attachment; of those only planned, without a result. */
function attachments(record: InstanceRecord): Omit<NetworkAttachment, "ip" | "aliases">[] {
  const { choice, networks } = record;
  if (choice.kind !== "bridges") return [];
  return choice.networks.map(({ network }, place) => {
    const ifname = `eth${place}`;
    const made = networks.find((attachment) => attachment.ifname === ifname);
    return { network, ifname, result: made?.result ?? {} };
  });
}

/** Leads the host's ports to the instance. The record says so before the rules exist. */
export async function publish(host: Host, record: InstanceRecord): Promise<void> {
  const first = attachments(record).find(({ network }) => !network.internal);
  if (!first || record.ports.length === 0) return;
  record.published = true;
  await host.bridges.publish(
    first.network,
    endpoint(host, record, first.ifname),
    first.result,
    mappings(record),
  );
}

/** Idempotent. */
export async function withdraw(host: Host, record: InstanceRecord): Promise<void> {
  const first = attachments(record).find(({ network }) => !network.internal);
  if (!record.published || !first) return;
  await host.bridges.withdraw(
    first.network,
    endpoint(host, record, first.ifname),
    first.result,
    mappings(record),
  );
  record.published = false;
}

/** Takes everything away: rules, addresses, namespace. Idempotent, for half-made ones too. */
export async function disconnect(host: Host, record: InstanceRecord): Promise<void> {
  const path = netnsPath(host, record);
  // After a reboot only the file is left, which plugins refuse; without it they clean up what they can.
  if (!await hasNetns(path)) await removeNetns(path);
  await withdraw(host, record);
  for (const { network, ifname, result } of attachments(record)) {
    await host.bridges.detach(network, endpoint(host, record, ifname), result);
  }
  await removeNetns(path);
  record.networks = [];
}

/** True where the instance's namespace is there: not after a reboot. */
export const isConnected = (host: Host, record: InstanceRecord): Promise<boolean> =>
  record.choice.kind !== "bridges" ? Promise.resolve(true) : hasNetns(netnsPath(host, record));
