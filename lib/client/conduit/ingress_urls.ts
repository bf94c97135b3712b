/** URLs of a conduit's ingress for a person, and the route that its proxy takes to the ingress. */
import type { IngressRoute } from "../../api/ingress.ts";
import { covers } from "../../base/certificates.ts";
import type { Endpoint } from "./conduit.ts";
import type { Ingress, IngressPorts } from "./ingress.ts";
import { LOOPBACK } from "./ingress_listen.ts";
import type { Route } from "./socks5.ts";
import { dialDirect } from "../../wire/socks5/direct.ts";

/** The ports that browsers use by default. */
export const INGRESS_PORTS: IngressPorts = { http: 80, https: 443 };

const SCHEMES = ["http", "https"] as const;

const portOf = (address: string) => Number(address.split(":").at(-1));

/** A URL for each host, path and scheme. `proxy`: clients reach the hosts through it, at the usual ports. */
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

/** The proxy's route for an ingress host at a usual port; undefined for any other host or port. */
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
