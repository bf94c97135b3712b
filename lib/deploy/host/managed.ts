/** Volumes and networks of a host engine, as callers list, inspect and remove them. */
import { SvcError } from "../../base/errors.ts";
import type { BridgeNetwork } from "../../runtime/bridge_network.ts";
import { gateway6Of } from "../../runtime/subnets6.ts";
import type { ManagedAbility, NetworkStatus, VolumeStatus } from "../caps.ts";
import type { Deployments } from "./deployments.ts";
import { DEFAULT_NETWORK, type NetworkTable } from "./networks.ts";
import type { NamedVolume, NamedVolumes } from "./volumes.ts";

/** Names of the deployments whose specs mount the volume, those that are being made or replaced too. */
function volumeUsers({ all }: Deployments, volume: string): string[] {
  return all.filter(({ record, instances }) =>
    [record, ...instances].some(({ spec }) => spec.volumes.some(({ name }) => name === volume))
  ).map(({ name }) => name).sort();
}

/** Names of the deployments that are on the network, or about to be. */
export function networkUsers(
  { all }: Deployments,
  network: string,
  { bridge }: BridgeNetwork,
): string[] {
  return all.filter(({ joining, instances }) =>
    joining.includes(network) ||
    instances.some(({ made: { choice } }) =>
      choice.kind === "bridges" && choice.networks.some(({ network }) => network.bridge === bridge)
    )
  ).map(({ name }) => name).sort();
}

/** The labels that specs give the network; of equal names the last deployment's counts. */
function labelsOf({ all }: Deployments, network: string): Record<string, string> {
  const given = all.flatMap(({ record }) =>
    record.spec.networks.filter(({ name }) => name === network).map(({ labels }) => labels)
  );
  return Object.assign({}, ...given);
}

function refuseInUse(kind: string, name: string, users: readonly string[]): void {
  if (users.length === 0) return;
  throw new SvcError(
    "conflict",
    `Cannot remove ${kind} ${name}: ${users.join(", ")} ${users.length > 1 ? "use" : "uses"} it`,
    { help: "delete those deployments, or deploy them without it", detail: { users } },
  );
}

export function managedVolumes(
  { deployments, volumes }: { deployments: Deployments; volumes: NamedVolumes },
): ManagedAbility<VolumeStatus> {
  const status = (volume: NamedVolume): VolumeStatus => ({
    ...volume,
    driver: "local",
    usedBy: volumeUsers(deployments, volume.name),
  });
  return {
    list: async () => (await volumes.list()).map(status),
    inspect: async (name) => {
      const volume = await volumes.inspect(name);
      return volume && status(volume);
    },
    remove: (name) =>
      volumes.remove(name, () => refuseInUse("volume", name, volumeUsers(deployments, name))),
  };
}

export interface ManagedNetworksOptions {
  deployments: Deployments;
  networks: NetworkTable;
  pruneNetworks: (options: { atEnd: boolean }) => Promise<void>;
}

/** A network goes by itself once nobody uses it: one that is left is one whose removal failed, or the default. */
export function managedNetworks(
  { deployments, networks, pruneNetworks }: ManagedNetworksOptions,
): ManagedAbility<NetworkStatus> {
  const status = (name: string, network: BridgeNetwork): NetworkStatus => {
    const chosen = deployments.instances.flatMap(({ made: { choice } }) =>
      choice.kind === "bridges" ? choice.networks : []
    ).filter((one) => one.network.bridge === network.bridge);
    const { subnet6 } = chosen.find((one) => one.network.subnet6)?.network ?? {};
    return {
      name,
      driver: "bridge",
      subnet: network.subnet,
      gateway: network.subnet.replace(/0\/24$/, "1"),
      ...(subnet6 && { subnet6, gateway6: gateway6Of(subnet6) }),
      internal: chosen.some((one) => one.network.internal),
      labels: labelsOf(deployments, name),
      usedBy: networkUsers(deployments, name, network),
    };
  };
  const find = async (name: string) => (await networks.list()).get(name);
  return {
    list: async () => {
      const all = [...await networks.list()].map(([name, network]) => status(name, network));
      return all.sort((a, b) => a.name < b.name ? -1 : 1);
    },
    inspect: async (name) => {
      const network = await find(name);
      return network && status(name, network);
    },
    remove: async (name) => {
      const network = await find(name);
      if (!network) return false;
      refuseInUse("network", name, networkUsers(deployments, name, network));
      await pruneNetworks({ atEnd: name === DEFAULT_NETWORK });
      if (!await find(name)) return true;
      // Somebody may have begun to use it.
      refuseInUse("network", name, networkUsers(deployments, name, network));
      throw new SvcError("internal", `Cannot remove network ${name}: its bridge stays`, {
        help: "see the server's log",
      });
    },
  };
}
