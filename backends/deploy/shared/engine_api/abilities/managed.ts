/** The volumes and networks that this server made in the engine. */
import { SvcError } from "../../../../../lib/base/errors.ts";
import type {
  CallOptions,
  ManagedAbility,
  NetworkStatus,
  VolumeStatus,
} from "../../../../../lib/deploy/caps.ts";
import type { DeploySpec } from "../../../../../lib/api/deploy_spec.ts";
import { foreignLabels, serverLabel } from "../labels.ts";
import type { AbilityParts, DeployedParts } from "./parts.ts";

interface ListedVolume {
  Name: string;
  Driver: string;
  CreatedAt?: string;
  Labels?: Record<string, string> | null;
}

/** Names of the deployments whose specs use it, in order. */
export function usersOf(
  { deployments }: Pick<DeployedParts, "deployments">,
  uses: (spec: DeploySpec) => boolean,
): string[] {
  return [...deployments()].filter(({ record }) => uses(record.spec)).map(({ name }) => name)
    .sort();
}

/** `drop` removes by the engine's name; the listing alone decides what is there to be removed. */
export function managed<Status extends { name: string; usedBy: string[] }>(
  word: string,
  all: (options?: CallOptions) => Promise<Status[]>,
  drop: (name: string, options: CallOptions & { attempted: string }) => Promise<void>,
): ManagedAbility<Status> {
  const list = async (options?: CallOptions) =>
    (await all(options)).sort((a, b) => a.name < b.name ? -1 : 1);
  const inspect = async (name: string, options?: CallOptions) =>
    (await all(options)).find((one) => one.name === name);
  return {
    list,
    inspect,
    async remove(name, options = {}) {
      const found = await inspect(name, options);
      if (!found) return false;
      const attempted = `Cannot remove ${word} ${name}`;
      if (found.usedBy.length > 0) {
        throw new SvcError("conflict", `${attempted}: ${found.usedBy.join(", ")} use it`, {
          help: "delete these deployments first",
        });
      }
      try {
        await drop(name, { ...options, attempted });
        return true;
      } catch (error) {
        if (error instanceof SvcError && error.code === "not_found") return false;
        throw error;
      }
    },
  };
}

export function volumesAbility(parts: AbilityParts): ManagedAbility<VolumeStatus> {
  const { client, server } = parts;
  return managed("volume", async ({ signal } = {}) => {
    const { Volumes } = await client.json<{ Volumes: ListedVolume[] | null }>({
      path: "/volumes",
      query: { filters: { label: [serverLabel(server)] } },
      attempted: "Cannot list the volumes",
      signal,
    });
    return (Volumes ?? []).map(({ Name, Driver, CreatedAt, Labels }) => ({
      name: Name,
      driver: Driver,
      ...(CreatedAt && { createdAt: CreatedAt }),
      labels: foreignLabels(Labels ?? {}),
      usedBy: usersOf(parts, ({ volumes = [] }) => volumes.some(({ name }) => name === Name)),
    }));
  }, (name, { attempted, signal }) =>
    client.run({
      method: "DELETE",
      path: `/volumes/${encodeURIComponent(name)}`,
      attempted,
      signal,
    }));
}

export function networksAbility(
  parts: Pick<DeployedParts, "networks" | "deployments">,
): ManagedAbility<NetworkStatus> {
  const { networks } = parts;
  return managed(
    "network",
    async ({ signal } = {}) =>
      (await networks.list(signal)).map(({ Name, Driver, IPAM, Internal, Labels }) => {
        const [config] = IPAM?.Config ?? [];
        return {
          name: networks.specName(Name),
          driver: Driver,
          ...(config?.Subnet && { subnet: config.Subnet }),
          ...(config?.Gateway && { gateway: config.Gateway }),
          internal: Internal,
          labels: foreignLabels(Labels ?? {}),
          usedBy: usersOf(parts, (spec) => networks.namesOf(spec).includes(Name)),
        };
      }),
    (name, options) => networks.remove(name, options),
  );
}
