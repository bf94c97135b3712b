/**
 * Addresses of this machine, and the networks of what runs in containers on it, whatever engine runs it: nobody has
 * the server connect there for them.
 */
import { isOwnBridge } from "./network.ts";

/** Names that engines give to their bridges: Docker, nerdctl, podman, LXD, Incus, and svc on Incus. */
const ENGINES =
  /^(docker\d+|docker_gwbridge|br-[\da-f]{12}|nerdctl\d+|(cni-)?podman\d+|(lxd|incus)br\d+|svc[\da-f]{12})$/;

type Interface = Pick<Deno.NetworkInterfaceInfo, "name" | "address" | "cidr">;

/** Addresses, and subnets such as "172.18.0.1/16", as they are now: interfaces come and go with deployments. */
export const ownAddresses = (
  interfaces: () => Interface[] = Deno.networkInterfaces,
): string[] =>
  interfaces().map(({ name, address, cidr }) =>
    isOwnBridge(name) || ENGINES.test(name) ? cidr : address
  );
