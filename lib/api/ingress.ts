/** Where requests of the outside go: what an `ingress` block of a spec comes to (SPEC "Ingress defaults"). */

export interface IngressRoute {
  /** Lower case, IDN in punycode, without a port: a name, or "*.domain" for any one label before it. */
  host: string;
  /** Begins with a slash. */
  path: string;
  /** As Kubernetes has them: `Prefix` goes by whole elements of the path. */
  pathType: "Exact" | "Prefix";
  deployment: string;
  /** Port inside the deployment's instance. */
  port: number;
  /** The spec asks for HTTPS. */
  tls: boolean;
}

/** A route as a deployment's status tells it. */
export interface IngressEndpoint extends IngressRoute {
  /** At the server's own front door; absent: it has none, and only tunnels and conduits lead there. */
  url?: string;
}
