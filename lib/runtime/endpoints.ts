/** Network namespaces with their attachments to bridges: made and removed together. */
import type { BridgeNetwork } from "./bridge_network.ts";
import type { CniResult } from "./cni.ts";
import { createNetns, hasNetns, removeNetns } from "./netns.ts";
import type { Addresses, BridgeDriver } from "./network.ts";

export interface Attached {
  network: BridgeNetwork;
  ifname: string;
  /** Address without prefix. */
  ip: string;
  gateway?: string;
  ip6?: string;
  result: CniResult;
}

export interface NetworkNamespace {
  /** Names the attachments in leases. */
  containerId: string;
  /** The namespace's file. */
  netns: string;
}

/**
 * A new namespace with loopback and the networks, eth0 first; `ready` is called once it exists. `addresses`: what
 * it is to have on each of the networks.
 */
export async function makeEndpoint(
  bridges: BridgeDriver,
  namespace: NetworkNamespace,
  networks: readonly BridgeNetwork[],
  { ready, addresses = [], signal }: {
    ready?: () => void;
    addresses?: readonly Addresses[];
    signal?: AbortSignal;
  } = {},
): Promise<Attached[]> {
  await createNetns(namespace.netns, signal);
  ready?.();
  const attach = async () => {
    const made: Attached[] = [];
    for (const [index, network] of networks.entries()) {
      const ifname = `eth${index}`;
      made.push({
        network,
        ifname,
        ...await bridges.attach(network, { ...addresses[index], ...namespace, ifname }, signal),
      });
    }
    return made;
  };
  const [, made] = await Promise.all([bridges.loopback(namespace, signal), attach()]);
  return made;
}

/** Removes a namespace with one network, whole or half made. Idempotent. */
export async function removeEndpoint(
  bridges: BridgeDriver,
  namespace: NetworkNamespace,
  network: BridgeNetwork,
  result?: CniResult,
): Promise<void> {
  // After a reboot only the namespace's file is left, which plugins refuse.
  if (!await hasNetns(namespace.netns)) await removeNetns(namespace.netns);
  await bridges.detach(network, { ...namespace, ifname: "eth0" }, result);
  await removeNetns(namespace.netns);
}
