/** Which names the instances have on their networks: for hosts files and for the resolver. */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import { HOST_NAME, isReservedName } from "../../../lib/api/deploy_spec_text.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import type { Instance } from "./instance.ts";

export interface NamedAddress {
  instance: Instance;
  ip: string;
  /** Which lead here: the deployment's, the instance's own, its hostname, its aliases there. */
  names: string[];
  /** Those that are known, and lead elsewhere or nowhere at the moment. */
  away: string[];
}

/** The first that any instance of a name has is what the name leads to. */
const STANDING = ["ready", "running", "trial"] as const;

/** "db.example.org" is called db too. */
const hostnames = ({ record: { hostname } }: Instance): string[] =>
  hostname ? [hostname, hostname.split(".")[0]] : [];

/**
 * Everybody on the network of that name. A name leads to the instances that are ready; where none of its
 * instances is, to those that run; and to those that are on trial only where there is nobody else. A
 * deployment's name is its own there, and so are its instances': whoever has it as an alias or a hostname
 * goes without.
 */
export function namesOn(network: string, all: readonly Instance[]): NamedAddress[] {
  const there = all.filter(({ record }) => record.phase !== "leaving").flatMap((instance) =>
    instance.record.networks.filter((attachment) => attachment.network.name === network)
      .map((attachment) => ({ instance, attachment }))
  );
  const owners = new Map<string, string>();
  for (const { instance: { id, deployment } } of there) owners.set(id, deployment);
  for (const { instance: { deployment } } of there) owners.set(deployment, deployment);
  const named = there.map(({ instance, attachment: { ip, aliases } }) => {
    const { deployment, id, readiness } = instance;
    const names = new Set([deployment, id, ...hostnames(instance), ...aliases]);
    return {
      instance,
      ip,
      rank: readiness === undefined ? STANDING.length : STANDING.indexOf(readiness),
      names: [...names].filter((name) =>
        // Records of older versions may hold what a spec may ask for no more.
        HOST_NAME.test(name) && !isReservedName(name) &&
        (owners.get(name.toLowerCase()) ?? deployment) === deployment
      ),
    };
  });
  const best = new Map<string, number>();
  for (const { rank, names } of named) {
    for (const name of names) best.set(name, Math.min(rank, best.get(name) ?? rank));
  }
  return named.map(({ instance, ip, rank, names }) => {
    const leads = (name: string) => rank < STANDING.length && rank === best.get(name);
    return {
      instance,
      ip,
      names: names.filter(leads),
      away: names.filter((name) => !leads(name)),
    };
  });
}

/**
 * Throws `conflict` where the spec asks for an alias that is the name of another deployment, or of an
 * instance of it, on the same network.
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
