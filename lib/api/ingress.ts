/** Routes of the ingress: the result of a spec's `ingress` block (SPEC "Ingress defaults"). */

export interface IngressRoute {
  /** Lower case, IDN in punycode, without a port: a name, or "*.domain" for any one label before it. */
  host: string;
  /** Begins with a slash. */
  path: string;
  /** As in Kubernetes: `Prefix` matches whole path elements. */
  pathType: "Exact" | "Prefix";
  deployment: string;
  /** Port inside the deployment's instance. */
  port: number;
  /** True where the spec asks for HTTPS. */
  tls: boolean;
}

/** A route as a deployment's status tells it. */
export interface IngressEndpoint extends IngressRoute {
  /**
   * URL at the server's front door; absent: there is no front door, and only tunnels and conduits lead there.
   */
  url?: string;
}
