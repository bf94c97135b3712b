/** Words of a deployment's egress: where the workload's own connections go out. */

/**
 * `env`: the workload is told proxy variables, and nothing is enforced. `proxy`: a proxy on the workload's
 * loopback is its only way out. `transparent`: all its TCP connections are led to that proxy.
 */
export const EGRESS_MODES = ["env", "proxy", "transparent"] as const;
export type EgressMode = typeof EGRESS_MODES[number];

/**
 * `client`: the caller of the deployment's session dials. `gateway`: the server dials. `cluster`: straight out,
 * as a workload without egress would. `deny`: nobody dials.
 */
export const EGRESS_ROUTES = ["client", "gateway", "cluster", "deny"] as const;
export type EgressRoute = typeof EGRESS_ROUTES[number];

/** Route of what no rule matches, where the spec names none. */
export const DEFAULT_EGRESS_ROUTE: EgressRoute = "cluster";

/** Port of the proxy on the workload's loopback, where the spec names none. */
export const DEFAULT_EGRESS_PORT = 3128;

export interface EgressSpec {
  mode?: EgressMode;
  proxies?: Record<string, string>;
  rules?: { pattern: string; route: EgressRoute }[];
  script?: string;
  default?: EgressRoute;
  listenPort?: number;
}

/** True where a proxy of svc's stands between the workload and the network. */
export const isRelayed = ({ mode }: EgressSpec): boolean =>
  mode === "proxy" || mode === "transparent";

/** The routes that the workload's connections may take; a script may choose any of them. */
export function routesOf({ rules = [], default: otherwise, script }: EgressSpec): EgressRoute[] {
  if (script) return [...EGRESS_ROUTES];
  const routes = [...rules.map(({ route }) => route), otherwise ?? DEFAULT_EGRESS_ROUTE];
  return EGRESS_ROUTES.filter((route) => routes.includes(route));
}

/** The variables by which programs are told of proxies; each is also read in lower case. */
export const PROXY_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] as const;
