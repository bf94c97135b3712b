/** Network namespaces with their attachments to bridges: made, and taken away, as one thing. */
import type { CniResult } from "./cni.ts";
import { createNetns, hasNetns, removeNetns } from "./netns.ts";
import type { BridgeDriver, BridgeNetwork } from "./network.ts";

export interface Attached {
  network: BridgeNetwork;
  ifname: string;
  /** Address without prefix. */
  ip: string;
  gateway?: string;
  result: CniResult;
}

export interface Place {
  /** Names the attachments in leases. */
  containerId: string;
  /** The namespace's file. */
  netns: string;
}

/** A new namespace with loopback and the networks, eth0 first; `ready` is called once it exists. */
export async function makeEndpoint(
  bridges: BridgeDriver,
  place: Place,
  networks: readonly BridgeNetwork[],
  { ready, signal }: { ready?: () => void; signal?: AbortSignal } = {},
): Promise<Attached[]> {
  await createNetns(place.netns, signal);
  ready?.();
  const attach = async () => {
    const made: Attached[] = [];
    for (const [index, network] of networks.entries()) {
      const ifname = `eth${index}`;
      made.push({
        network,
        ifname,
        ...await bridges.attach(network, { ...place, ifname }, signal),
      });
    }
    return made;
  };
  const [, made] = await Promise.all([bridges.loopback(place, signal), attach()]);
  return made;
}

/** Of a namespace with one network, whole or half made. Idempotent. */
export async function removeEndpoint(
  bridges: BridgeDriver,
  place: Place,
  network: BridgeNetwork,
  result?: CniResult,
): Promise<void> {
  // After a reboot only the file is left, which plugins refuse.
  if (!await hasNetns(place.netns)) await removeNetns(place.netns);
  await bridges.detach(network, { ...place, ifname: "eth0" }, result);
  await removeNetns(place.netns);
}
