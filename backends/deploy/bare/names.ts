/** Which names the instances have on their networks: for hosts files and for the resolver. */
import type { Instance } from "./instance.ts";
import type { NetworkAttachment } from "./record.ts";

export interface NamedAddress {
  instance: Instance;
  ip: string;
  /** The deployment's, the instance's own, and its aliases there. */
  names: string[];
}

/** Everybody on the network of that name, but for those that are being replaced. */
export function namesOn(network: string, all: readonly Instance[]): NamedAddress[] {
  const named = (instance: Instance) => ({ ip, aliases }: NetworkAttachment) => ({
    instance,
    ip,
    names: [instance.deployment, instance.id, ...aliases],
  });
  return all.filter(({ record }) => record.phase !== "leaving").flatMap((instance) =>
    instance.record.networks.filter((attachment) => attachment.network.name === network)
      .map(named(instance))
  );
}
