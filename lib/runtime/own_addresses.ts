/**
 * Addresses of this machine, and the networks of what runs in containers on it, whatever engine runs it: nobody has
 * the server connect there for them.
 */
import { engineBridges } from "./engine_bridges.ts";
import { isOwnBridge } from "./bridge_network.ts";

type Interface = Pick<Deno.NetworkInterfaceInfo, "name" | "address" | "cidr">;

/** Addresses, and subnets such as "172.18.0.1/16", as they are now: interfaces come and go with deployments. */
export function ownAddresses(
  interfaces: readonly Interface[] = Deno.networkInterfaces(),
  engines: ReadonlySet<string> = engineBridges(),
): string[] {
  return interfaces.map(({ name, address, cidr }) =>
    isOwnBridge(name) || engines.has(name) ? cidr : address
  );
}
