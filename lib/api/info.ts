/** `GET /.svc/v1/info` and `GET /.well-known/svc`. */

export interface ServerInfo {
  version: string;
  commit?: string;
  buildTags: string[];
  /** host[:port], with a scheme where it was configured with one: where deploy targets pull from. */
  registry: string;
  deploy: {
    /** Name of the selected backend. */
    backend: string;
    /** False where this build or this server cannot deploy; `reason` says why. */
    available: boolean;
    reason?: string;
    /** Optional abilities, by the name of the member of `DeployBackend.caps`. */
    caps: string[];
  };
  ingress: {
    enabled: boolean;
    domain?: string;
    enforceDomain?: boolean;
    /** The front door's address, where it is open. */
    listen?: string;
    /** `<namespace>/<service>[:httpPort/httpsPort]` of the cluster's controller, where the backend has one. */
    controller?: string;
  };
  /** Backends that a public tunnel can be opened with as the server is set up. */
  tunnels: { backends: string[] };
  limits: {
    /** Builds that run at the same time. */
    buildConcurrency: number;
    /** Bytes of an uploaded build context; absent: unlimited. */
    maxBuildContextBytes?: number;
  };
  /** The caller. */
  identity: { subject: string; scopes: string[] };
}

/** What a client needs before it has a credential; served without one. */
export interface WellKnown {
  /** Path prefix of the management API. */
  api: string;
  /** Accepted methods (`AuthMethod` of auth.ts); empty: no credential is asked for. */
  auth: string[];
  /** Path of the OAuth 2.0 token exchange (RFC 8693), where there is one. */
  tokenEndpoint?: string;
  /** Paths of the two steps to a session with an SSH key, where `auth` has `ssh-key`. */
  keyAuth?: { challenge: string; session: string; namespace: string };
}
