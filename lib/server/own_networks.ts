/**
 * A server that asks for no credential trusts every peer, except its own builds and workloads: their code was
 * written by others, and they reach the server over the gateway of their network.
 */
import { SvcError } from "../base/errors.ts";
import { gatewayOf } from "../runtime/bridge_rules.ts";
import { bridgeNetwork, isBridgeOf } from "../runtime/network.ts";
import { parseAddress6 } from "../base/address6.ts";
import { inSubnet6, parseSubnet6 } from "../runtime/subnets6.ts";
import { splitHost } from "./hosts.ts";
import type { Route } from "./route.ts";

type Interface =
  & Pick<Deno.NetworkInterfaceInfo, "name" | "address">
  & Partial<Pick<Deno.NetworkInterfaceInfo, "cidr">>;

/** Throws `denied`. */
export type RefusePeer = (route: Route, remote: string) => void;

/** True for requests that only read images. */
const isPull = ({ path, method }: Route) =>
  path.startsWith("/v2/") && (method === "GET" || method === "HEAD");

/** `base`: SVC_CNI_SUBNET_BASE. A peer in another subnet of it is refused only where this host has the bridge. */
export function refuseOwnNetworks(
  base: string,
  interfaces: () => Interface[] = Deno.networkInterfaces,
): RefusePeer {
  const isOwn6 = (number: bigint) =>
    interfaces().some(({ name, address, cidr = "" }) => {
      const subnet = isBridgeOf(base, name) ? parseSubnet6(cidr) : undefined;
      // Link-local addresses are the same on every interface, and the firewall drops those of the bridges.
      return subnet && !address.startsWith("fe80:") && parseAddress6(address) !== number &&
        inSubnet6(subnet, number);
    });
  const isOwn = (address: string) => {
    const number = parseAddress6(address);
    if (number !== undefined) return isOwn6(number);
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
