/** Where a conduit's ingress is: addresses for a person, and the way there for the conduit's proxy. */
import type { IngressRoute } from "../../api/ingress.ts";
import { covers } from "../../base/certificates.ts";
import type { Endpoint } from "./conduit.ts";
import type { Ingress, IngressPorts } from "./ingress.ts";
import { LOOPBACK } from "./ingress_listen.ts";
import type { Route } from "./socks5.ts";
import { dialDirect } from "./socks5_direct.ts";

/** Where browsers look. */
export const INGRESS_PORTS: IngressPorts = { http: 80, https: 443 };

const SCHEMES = ["http", "https"] as const;

const portOf = (address: string) => Number(address.split(":").at(-1));

/** Each host and path by each scheme. `proxy`: the hosts are reached through it, at the usual ports. */
export function ingressUrls(
  routes: readonly IngressRoute[],
  address: Ingress["address"],
  proxy?: string,
): Endpoint[] {
  return routes.flatMap(({ host, path, deployment, port }) =>
    SCHEMES.flatMap((scheme): Endpoint[] => {
      const at = address[scheme];
      if (at === undefined) return [];
      const usual = proxy !== undefined || portOf(at) === INGRESS_PORTS[scheme];
      const url = `${scheme}://${host}${usual ? "" : `:${portOf(at)}`}${path}`;
      return [{ kind: "ingress", deployment, port, url, address: proxy ?? at }];
    })
  );
}

/** Of a proxy that is asked for an ingress host at a usual port. */
export function routeTo(
  routes: readonly IngressRoute[],
  address: Ingress["address"],
): (host: string, port: number) => Route | undefined {
  return (host, port) => {
    const scheme = SCHEMES.find((scheme) => INGRESS_PORTS[scheme] === port);
    const at = scheme && address[scheme];
    if (at === undefined || !routes.some((route) => covers(route.host, host))) return undefined;
    return (signal) => dialDirect(LOOPBACK, portOf(at), signal);
  };
}
