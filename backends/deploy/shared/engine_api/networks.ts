/** Networks of the engine that svc makes for deployments, and removes with the last of them. */
import type { DeploySpec, NetworkSpec } from "../../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import { Mutex } from "../../../../lib/base/mutex.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { foreignRoute, type HostRoute, hostRoutes } from "../../../../lib/runtime/subnets.ts";
import type { EngineBehaviour } from "./behaviour.ts";
import { foreignLabels, SERVER, serverLabel } from "./labels.ts";

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

const attempted = (name: string) => `Cannot use network ${name}`;

export class EngineNetworks {
  readonly #client: DockerClient;
  readonly #server: string;
  readonly #behaviour: EngineBehaviour;
  readonly #routes: () => Promise<HostRoute[]>;
  readonly #lock = new Mutex();

  constructor(
    client: DockerClient,
    server: string,
    behaviour: EngineBehaviour,
    routes: () => Promise<HostRoute[]> = hostRoutes,
  ) {
    this.#routes = routes;
    this.#client = client;
    this.#server = server;
    this.#behaviour = behaviour;
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
    return this.#client.json<InspectedNetwork[]>({
      path: "/networks",
      query: { filters: { label: [serverLabel(this.#server)] } },
      attempted: "Cannot list the networks",
      signal,
    });
  }

  /** Removes the network of this server that specs call so. Throws `not_found`, or `conflict` where a container is on it. */
  remove(
    name: string,
    { attempted, signal }: { attempted: string; signal?: AbortSignal },
  ): Promise<void> {
    return this.#lock.run(async () => {
      const found = (await this.list(signal)).find(({ Name }) => Name === this.#named(name));
      if (!found) throw new SvcError("not_found", `${attempted}: there is none of that name`);
      // By its id: the engine could take a name for the id of somebody else's network.
      const path = `/networks/${found.Id}`;
      await this.#client.run({ method: "DELETE", path, attempted, signal });
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

  async #find(name: string): Promise<InspectedNetwork | undefined> {
    const list = await this.#client.json<InspectedNetwork[]>({
      path: "/networks",
      query: { filters: { name: [name] } },
      attempted: attempted(name),
    });
    return list.find(({ Name }) => Name === name);
  }

  async #one(spec: NetworkSpec): Promise<string> {
    const name = this.#named(spec.name);
    const found = await this.#find(name);
    if (!found) {
      await this.#requireUnrouted(name, spec);
      return await this.#make(name, spec);
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
   * Docker compares a subnet with its own networks alone: the bridge would take over what the host leads elsewhere.
   * Throws `conflict`, which names the route.
   */
  async #requireUnrouted(name: string, { subnet }: NetworkSpec): Promise<void> {
    const what = attempted(name);
    if (!subnet || !await this.#behaviour.seesRoutes?.(this.#client, what)) return;
    const route = foreignRoute(await this.#routes(), { subnet, bridge: "" });
    if (!route) return;
    throw new SvcError("conflict", `${what}: the host has a route into ${subnet}: ${route.text}`, {
      help: "name another subnet, or leave it out",
    });
  }

  async #make(name: string, spec: NetworkSpec): Promise<string> {
    const { driver, driverOpts, subnet, gateway, ipRange, internal, enableIPv6 } = spec;
    const { Id } = await this.#client.json<{ Id: string }>({
      path: "/networks/create",
      json: {
        Name: name,
        CheckDuplicate: true,
        Driver: driver && driver !== "default" ? driver : "bridge",
        Options: driverOpts ?? {},
        Internal: internal ?? false,
        Attachable: spec.attachable ?? true,
        EnableIPv6: enableIPv6 ?? false,
        ...(subnet && {
          IPAM: { Config: [{ Subnet: subnet, Gateway: gateway, IPRange: ipRange }] },
        }),
        Labels: { ...foreignLabels(spec.labels), [SERVER]: this.#server },
      },
      attempted: `Cannot make network ${name}`,
    });
    return Id;
  }

  /** Removes the networks of this server that are not among `used`. One that is in use by others stays. */
  prune(used: () => ReadonlySet<string>): Promise<void> {
    return this.#lock.run(async () => {
      const list = await this.list();
      const names = used();
      for (const { Id, Name } of list) {
        if (names.has(Name)) continue;
        await this.#client.run({
          method: "DELETE",
          ...this.#behaviour.networkRemoval?.(Id) ?? { path: `/networks/${Id}` },
          attempted: `Cannot remove network ${Name}`,
        }).catch((error) => {
          // Somebody else has attached a container; or it is gone.
          const known = ["denied", "not_found", "conflict"];
          if (!(error instanceof SvcError) || !known.includes(error.code)) throw error;
        });
      }
    });
  }
}
