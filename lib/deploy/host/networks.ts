/** Networks by name. Each has a /24 and a bridge of its own while a deployment uses it. */
import { SvcError } from "../../base/errors.ts";
import { ensureDir, readJson, writeFileAtomic } from "../../base/fs.ts";
import { Mutex } from "../../base/mutex.ts";
import type { NetworkSpec } from "../../api/deploy_spec.ts";
import {
  type BridgeNetwork,
  bridgeNetwork,
  BUILD_NETWORK,
  hasBridge,
} from "../../runtime/network.ts";
import { dirname } from "node:path";
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

  /** The network's index in the table; a new name gets the first free one. */
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

  /**
   * Resolves a spec's `networks`, those of a higher priority first. The default route is on the network marked
   * default, else on the first, unless that is internal. All users of a network must agree on its properties:
   * `users` are all of them, `others` those of other deployments.
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
    const priority = ({ spec }: typeof networks[number]) => spec.priority ?? 0;
    networks.sort((a, b) => last(a) - last(b) || priority(b) - priority(a));
    return {
      kind: "bridges",
      networks: networks.map(({ spec: { aliases = [] }, network }, place) => ({
        network: { ...network, secondary: place > 0 },
        aliases,
      })),
    };
  }
}

/** The network's properties according to those choices. */
const onBridge = (choices: readonly NetworkChoice[], { bridge }: BridgeNetwork) =>
  choices.flatMap((choice) => choice.kind === "bridges" ? choice.networks : [])
    .map(({ network }) => network).filter((network) => network.bridge === bridge);

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
      if (onBridge(choices, network).some(({ internal }) => internal)) network.internal = true;
    }
  }
}

/** True where published ports can be reached: internal networks publish none. */
export const canPublish = (choice: NetworkChoice): boolean =>
  choice.kind === "bridges" && choice.networks.some(({ network }) => !network.internal);
