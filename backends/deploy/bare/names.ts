/** Which names the instances have on their networks: for hosts files and for the resolver. */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import type { Instance } from "./instance.ts";

export interface NamedAddress {
  instance: Instance;
  ip: string;
  /** The deployment's, the instance's own, and its aliases there. */
  names: string[];
}

/**
 * Everybody on the network of that name, but for those that are being replaced. A deployment's name is its
 * own there, and so are its instances': whoever has it as an alias goes without.
 */
export function namesOn(network: string, all: readonly Instance[]): NamedAddress[] {
  const there = all.filter(({ record }) => record.phase !== "leaving").flatMap((instance) =>
    instance.record.networks.filter((attachment) => attachment.network.name === network)
      .map((attachment) => ({ instance, attachment }))
  );
  const owners = new Map<string, string>();
  for (const { instance: { id, deployment } } of there) owners.set(id, deployment);
  for (const { instance: { deployment } } of there) owners.set(deployment, deployment);
  return there.map(({ instance, attachment: { ip, aliases } }) => ({
    instance,
    ip,
    names: [instance.deployment, instance.id, ...aliases].filter((name) =>
      (owners.get(name.toLowerCase()) ?? instance.deployment) === instance.deployment
    ),
  }));
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
