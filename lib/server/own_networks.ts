/**
 * A server that asks for no credential trusts whoever reaches it. What its own builds and workloads run is
 * not among those: it was written by others, and reaches this server by the gateway of its network.
 */
import { SvcError } from "../base/errors.ts";
import { gatewayOf } from "../runtime/bridge_rules.ts";
import { bridgeNetwork } from "../runtime/network.ts";
import { splitHost } from "./hosts.ts";
import type { Route } from "./route.ts";

type Interface = Pick<Deno.NetworkInterfaceInfo, "name" | "address">;

/** Throws `denied`. */
export type RefusePeer = (route: Route, remote: string) => void;

/** True for what only reads images. */
const isPull = ({ path, method }: Route) =>
  path.startsWith("/v2/") && (method === "GET" || method === "HEAD");

/** `base`: SVC_CNI_SUBNET_BASE. Networks beside it that are not this host's bridges are anybody's. */
export function refuseOwnNetworks(
  base: string,
  interfaces: () => Interface[] = Deno.networkInterfaces,
): RefusePeer {
  const isOwn = (address: string) => {
    if (!address.startsWith(`${base}.`)) return false;
    const network = bridgeNetwork(base, Number(address.split(".")[2]));
    const gateway = gatewayOf(network);
    return address !== gateway &&
      interfaces().some((one) => one.name === network.bridge && one.address === gateway);
  };
  return (route, remote) => {
    if (isPull(route)) return;
    const { name } = splitHost(remote);
    if (!isOwn(name.replace(/^::ffff:/, ""))) return;
    throw new SvcError(
      "denied",
      `Cannot take the request from ${name}: it comes from a network of this server's own builds and ` +
        "workloads, which may pull images and nothing else",
      {
        help: "set up authentication, as this server asks nobody for a credential; or set " +
          "SVC_WORKLOAD_API=open where everything that is built and deployed may do everything",
      },
    );
  };
}
