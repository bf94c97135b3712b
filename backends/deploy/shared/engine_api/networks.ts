/** Networks that svc makes for deployments in an engine, and removes with the last of them. */
import type { DeploySpec, NetworkSpec } from "../../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import { Mutex } from "../../../../lib/base/mutex.ts";
import { foreignRoute, type HostRoute, hostRoutes } from "../../../../lib/runtime/subnets.ts";
import { SERVER } from "./labels.ts";

interface Ipam {
  Subnet?: string;
  Gateway?: string;
  IPRange?: string;
}

export interface InspectedNetwork {
  Id: string;
  Name: string;
  Internal: boolean;
  Driver: string;
  IPAM?: { Config?: Ipam[] | null };
  Labels?: Record<string, string> | null;
}

/** How a container is attached to its networks. */
export type Attachments =
  | { kind: "host" | "none" }
  | { kind: "networks"; networks: { id: string; spec: NetworkSpec }[] };

/** The engine's calls. */
export interface NetworkCalls {
  /** The networks of this server. */
  list(signal?: AbortSignal): Promise<InspectedNetwork[]>;
  /** Whosever it is. */
  find(name: string): Promise<InspectedNetwork | undefined>;
  /** Gives its id. */
  create(name: string, spec: NetworkSpec): Promise<string>;
  /** Throws `not_found`, and `conflict` or `denied` where a container is on it. */
  remove(network: InspectedNetwork, attempted: string, signal?: AbortSignal): Promise<void>;
  /** See {@linkcode EngineBehaviour.seesRoutes}. */
  seesRoutes?(attempted: string): Promise<boolean>;
}

const attempted = (name: string) => `Cannot use network ${name}`;

export class EngineNetworks {
  readonly #calls: NetworkCalls;
  readonly #server: string;
  readonly #routes: () => Promise<HostRoute[]>;
  readonly #lock = new Mutex();

  constructor(
    calls: NetworkCalls,
    server: string,
    routes: () => Promise<HostRoute[]> = hostRoutes,
  ) {
    this.#routes = routes;
    this.#calls = calls;
    this.#server = server;
  }

  /** The network of deployments that name none. Two servers of one engine have one each. */
  get standard(): string {
    return `svc-${this.#server.slice(0, 8)}`;
  }

  /** The engine's names of a spec's networks. */
  namesOf({ networks }: Pick<DeploySpec, "networks">): string[] {
    if (networks.some(({ name }) => name === "host" || name === "none")) return [];
    return networks.length > 0 ? networks.map(({ name }) => this.#named(name)) : [this.standard];
  }

  /** The name that specs have for one of the engine's names. */
  specName(name: string): string {
    return name === this.standard ? "default" : name;
  }

  /** The networks of this server. */
  list(signal?: AbortSignal): Promise<InspectedNetwork[]> {
    return this.#calls.list(signal);
  }

  /** Removes the network of this server that specs call so. Throws `not_found`, or `conflict` where a container is on it. */
  remove(
    name: string,
    { attempted, signal }: { attempted: string; signal?: AbortSignal },
  ): Promise<void> {
    return this.#lock.run(async () => {
      const found = (await this.list(signal)).find(({ Name }) => Name === this.#named(name));
      if (!found) throw new SvcError("not_found", `${attempted}: there is none of that name`);
      await this.#calls.remove(found, attempted, signal);
    });
  }

  #named(name: string): string {
    return name === "default" ? this.standard : name;
  }

  /** Makes the networks that are missing. Throws `conflict` for one that this server did not make. */
  async ensure({ networks }: Pick<DeploySpec, "networks">): Promise<Attachments> {
    const special = networks.find(({ name }) => name === "host" || name === "none");
    if (special && networks.length > 1) {
      throw new SvcError(
        "spec_invalid",
        `Cannot attach networks: ${special.name} cannot be combined with others`,
      );
    }
    if (special) return { kind: special.name as "host" | "none" };
    const wanted: NetworkSpec[] = networks.length > 0 ? [...networks] : [{ name: "default" }];
    // The engine takes the default route from the first, unless that is internal.
    const last = (spec: NetworkSpec) => spec.internal ? 2 : spec.default ? 0 : 1;
    wanted.sort((a, b) => last(a) - last(b) || (b.priority ?? 0) - (a.priority ?? 0));
    return await this.#lock.run(async () => ({
      kind: "networks",
      networks: await Promise.all(
        wanted.map(async (spec) => ({ spec, id: await this.#one(spec) })),
      ),
    }));
  }

  async #one(spec: NetworkSpec): Promise<string> {
    const name = this.#named(spec.name);
    const found = await this.#calls.find(name);
    if (!found) {
      await this.#requireUnrouted(name, spec);
      return await this.#calls.create(name, spec);
    }
    if (found.Labels?.[SERVER] !== this.#server) {
      throw new SvcError("conflict", `${attempted(name)}: it is there, and not of this server`, {
        help: "name another network; who has it could be reached on it",
      });
    }
    const { internal, subnet, driver } = spec;
    const config = found.IPAM?.Config?.map(({ Subnet }) => Subnet) ?? [];
    const differs = internal !== undefined && internal !== found.Internal
      ? `it is ${found.Internal ? "internal" : "one that leads out"}`
      : subnet !== undefined && !config.includes(subnet)
      ? `its subnet is ${config.join(", ")}`
      : driver && driver !== "default" && driver !== found.Driver
      ? `its driver is ${found.Driver}`
      : undefined;
    if (differs === undefined) return found.Id;
    throw new SvcError("conflict", `${attempted(name)}: ${differs} for the deployments on it`, {
      help: "leave the field out to take the network as it is, or name another network",
    });
  }

  /**
   * The engine may compare a subnet with its own networks alone: the bridge would take over what the host leads
   * elsewhere. Throws `conflict`, which names the route.
   */
  async #requireUnrouted(name: string, { subnet }: NetworkSpec): Promise<void> {
    const what = attempted(name);
    if (!subnet || !await this.#calls.seesRoutes?.(what)) return;
    const route = foreignRoute(await this.#routes(), { subnet, bridge: "" });
    if (!route) return;
    throw new SvcError("conflict", `${what}: the host has a route into ${subnet}: ${route.text}`, {
      help: "name another subnet, or leave it out",
    });
  }

  /**
   * Removes the networks of this server that are not among `used`. Gives the names of those that stay: somebody else
   * is on them, or the engine has not done with a container that was.
   */
  prune(used: () => ReadonlySet<string>): Promise<string[]> {
    return this.#lock.run(async () => {
      const list = await this.list();
      const names = used();
      const busy: string[] = [];
      for (const network of list) {
        if (names.has(network.Name)) continue;
        const attempted = `Cannot remove network ${network.Name}`;
        await this.#calls.remove(network, attempted).catch((error) => {
          const known = ["denied", "not_found", "conflict"];
          if (!(error instanceof SvcError) || !known.includes(error.code)) throw error;
          if (error.code !== "not_found") busy.push(network.Name);
        });
      }
      return busy;
    });
  }
}
