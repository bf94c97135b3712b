/**
 * A server that asks for no credential trusts every peer, except its own builds and workloads: their code was
 * written by others, and they reach the server over the gateway of their network.
 */
import { BlockList, isIPv6 } from "node:net";
import { SvcError } from "../base/errors.ts";
import type { DeployBackend } from "../deploy/backend.ts";
import { gatewayOf } from "../runtime/bridge_rules.ts";
import { engineBridges } from "../runtime/engine_bridges.ts";
import { bridgeNetwork, isBridgeOf } from "../runtime/network.ts";
import { parseAddress6 } from "../base/address6.ts";
import { inSubnet6, parseSubnet6 } from "../runtime/subnets6.ts";
import { isLoopback, splitHost } from "./hosts.ts";
import type { Route } from "./route.ts";

type Interface =
  & Pick<Deno.NetworkInterfaceInfo, "name" | "address">
  & Partial<Pick<Deno.NetworkInterfaceInfo, "cidr">>;

/** Throws `denied`; later, where an engine has to be asked whose network it is. */
export type RefusePeer = (route: Route, remote: string) => void | Promise<void>;

export interface OwnNetworksOptions {
  interfaces?: () => Interface[];
  /** Names of engines' bridges. */
  engines?: () => ReadonlySet<string>;
  /** Its networks are refused too, those of engines with bridges of their own. */
  backend?: () => Promise<Pick<DeployBackend, "caps">>;
}

/** True for requests that only read images. */
const isPull = ({ path, method }: Route) =>
  path.startsWith("/v2/") && (method === "GET" || method === "HEAD");

function refused(name: string): SvcError {
  return new SvcError(
    "denied",
    `Cannot take the request from ${name}: it comes from a network of this server's own builds and ` +
      "workloads, which may pull images and nothing else",
    {
      help: "set up authentication, as this server asks nobody for a credential; or set " +
        "SVC_WORKLOAD_API=open where everything that is built and deployed may do everything",
    },
  );
}

/** Whether "172.18.0.1/16" has the address. */
function holds(subnet: string, address: string): boolean {
  const [first, bits] = subnet.split("/");
  const [family, other] = [first, address].map((one) => isIPv6(one) ? "ipv6" : "ipv4");
  if (family !== other) return false;
  const list = new BlockList();
  list.addSubnet(first, Number(bits), family);
  return list.check(address, family);
}

const isLinkLocal = (address: string) => address.startsWith("fe80:");

/** The names of interfaces by which the peer is, or may be, on this host's own links. */
function linksTo(peer: string, all: readonly Interface[]): string[] {
  // The system does not tell by which interface a link-local peer came: by one that has IPv6.
  const may = isLinkLocal(peer)
    ? all.filter(({ address }) => isIPv6(address) && !isLinkLocal(address))
    : all.filter(({ cidr }) => cidr !== undefined && holds(cidr, peer));
  return may.map(({ name }) => name);
}

/** `base`: SVC_CNI_SUBNET_BASE. A peer in another subnet of it is refused only where this host has the bridge. */
export function refuseOwnNetworks(
  base: string,
  { interfaces = Deno.networkInterfaces, engines = engineBridges, backend }: OwnNetworksOptions =
    {},
): RefusePeer {
  const isOwn6 = (number: bigint) =>
    interfaces().some(({ name, address, cidr = "" }) => {
      const subnet = isBridgeOf(base, name) ? parseSubnet6(cidr) : undefined;
      // Link-local addresses are the same on every interface, and the firewall drops those of the bridges.
      return subnet && !isLinkLocal(address) && parseAddress6(address) !== number &&
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
  /** Engines say which networks are this server's; only a peer on one of their bridges can be in one. */
  const refuseEngines = async (peer: string) => {
    const all = interfaces();
    if (all.some(({ address }) => address === peer)) return;
    const near = linksTo(peer, all);
    if (near.length === 0) return;
    const there = engines();
    const bridges = near.filter((name) => there.has(name));
    if (bridges.length === 0) return;
    const { networks } = (await backend!()).caps;
    const subnets = (await networks?.list() ?? []).flatMap(({ subnet }) => subnet ?? []);
    const isOwnBridge = ({ name, address }: Interface) =>
      bridges.includes(name) && subnets.some((subnet) => holds(subnet, address));
    if (all.some(isOwnBridge)) throw refused(peer);
  };
  return (route, remote) => {
    if (isPull(route)) return;
    const peer = splitHost(remote).name.replace(/^::ffff:/, "");
    if (isOwn(peer)) throw refused(peer);
    if (backend && !isLoopback(remote)) return refuseEngines(peer);
  };
}
