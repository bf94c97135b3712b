/** The names of instances on their networks, for hosts files and the resolver. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { HOST_NAME, isReservedName } from "../../api/deploy_spec_text.ts";
import { SvcError } from "../../base/errors.ts";
import type { InstanceRecord, NetworkAttachment } from "./record.ts";
import type { Standing } from "./standing.ts";

/** The part of an instance that names need. */
export interface Named {
  id: string;
  deployment: string;
  made: { hostname?: string };
  networks: readonly {
    network: { name: string };
    ip: string;
    ip6?: string;
    aliases: readonly string[];
  }[];
  leaving: boolean;
  standing: Standing | undefined;
}

/** An instance on networks of this host. */
export interface NamedInstance extends Named {
  made: Pick<InstanceRecord, "hostname" | "choice">;
  networks: readonly NetworkAttachment[];
}

export interface NamedAddress<Instance = NamedInstance> {
  instance: Instance;
  ip: string;
  ip6?: string;
  /**
   * Names that lead to this address: the deployment's, the instance's own, its hostname, its aliases on the
   * network.
   */
  names: string[];
  /** Names of the instance that lead elsewhere or nowhere at the moment. */
  away: string[];
}

/** In order of preference: a name leads to its instances of the best standing. */
const STANDING: readonly (Standing | undefined)[] = ["ready", "running", "trial"];

/** "db.example.org" is also called "db". */
const hostnames = ({ made: { hostname } }: Named): string[] =>
  hostname ? [hostname, hostname.split(".")[0]] : [];

/**
 * The addresses on a network with their names. A name leads to its ready instances; where none is ready, to the
 * running ones; and to instances on trial only where there are no others. The names of a deployment and its
 * instances belong to that deployment on its networks: the same alias or hostname of another deployment is
 * ignored.
 */
export function namesOn<Instance extends Named>(
  network: string,
  all: readonly Instance[],
): NamedAddress<Instance>[] {
  const there = all.filter(({ leaving }) => !leaving).flatMap((instance) =>
    instance.networks.filter((attachment) => attachment.network.name === network)
      .map((attachment) => ({ instance, attachment }))
  );
  const owners = new Map<string, string>();
  for (const { instance: { id, deployment } } of there) owners.set(id, deployment);
  for (const { instance: { deployment } } of there) owners.set(deployment, deployment);
  const named = there.map(({ instance, attachment: { ip, ip6, aliases } }) => {
    const { deployment, id, standing } = instance;
    const place = STANDING.indexOf(standing);
    const names = new Set([deployment, id, ...hostnames(instance), ...aliases]);
    return {
      instance,
      ip,
      ip6,
      rank: place < 0 ? STANDING.length : place,
      names: [...names].filter((name) =>
        // Records of older versions may hold names that a spec may no longer have.
        HOST_NAME.test(name) && !isReservedName(name) &&
        (owners.get(name.toLowerCase()) ?? deployment) === deployment
      ),
    };
  });
  const best = new Map<string, number>();
  for (const { rank, names } of named) {
    for (const name of names) best.set(name, Math.min(rank, best.get(name) ?? rank));
  }
  return named.map(({ instance, ip, ip6, rank, names }) => {
    const leads = (name: string) => rank < STANDING.length && rank === best.get(name);
    return {
      instance,
      ip,
      ...(ip6 && { ip6 }),
      names: names.filter(leads),
      away: names.filter((name) => !leads(name)),
    };
  });
}

/**
 * Throws `conflict` where the spec asks for an alias that is, on the same network, the name of another
 * deployment or of one of its instances.
 */
export function requireFreeAliases(spec: DeploySpec, others: readonly DeploySpec[]): void {
  for (const { name: network, aliases = [] } of spec.networks) {
    for (const alias of aliases) {
      const lower = alias.toLowerCase();
      const owner = others.find(({ name, networks }) =>
        name !== spec.name && networks.some((other) => other.name === network) &&
        (lower === name ||
          lower.startsWith(`${name}-`) && /^\d+$/.test(lower.slice(name.length + 1)))
      );
      if (!owner) continue;
      throw new SvcError(
        "conflict",
        `Cannot deploy ${spec.name} with the alias ${alias}: on network ${network} that is deployment ` +
          `${owner.name}'s name`,
        { help: "choose another alias, or another network" },
      );
    }
  }
}
