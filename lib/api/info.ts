/** `GET /.svc/v1/info` and `GET /.well-known/svc`. */

export interface ServerInfo {
  version: string;
  commit?: string;
  buildTags: string[];
  /** host[:port], with a scheme where it was configured with one: where deploy targets pull from. */
  registry: string;
  /**
   * What the registry shows: "store": what was pushed; "host-native": the images of the backend's engine;
   * "union": both.
   */
  registryMode: "store" | "host-native" | "union";
  /** False where the registry takes no pushes. */
  registryWritable: boolean;
  deploy: {
    /** Name of the selected backend. */
    backend: string;
    /** False where this build or this server cannot deploy; then `reason` says why. */
    available: boolean;
    /** The engine and where it is, for people; absent where the backend needs none. */
    engine?: string;
    reason?: string;
    /** Optional abilities, by the name of the member of `DeployBackend.caps`. */
    caps: string[];
  };
  /**
   * Where builds run: in this process, at the builder of SVC_BUILDER_URL, in a container that the first build
   * starts, or nowhere; then `reason` says why.
   */
  build: { at: "here" | "builder" | "container" | "nowhere"; reason?: string };
  ingress: {
    enabled: boolean;
    domain?: string;
    enforceDomain?: boolean;
    /** Listen address of the front door, if it is open. */
    listen?: string;
    /** `<namespace>/<service>[:httpPort/httpsPort]` of the cluster's controller, where the backend has one. */
    controller?: string;
  };
  /** Tunnel backends that the server is configured for. */
  tunnels: { backends: string[] };
  limits: {
    /** Builds that may run at once. */
    buildConcurrency: number;
    /** Bytes of an uploaded build context; absent: unlimited. */
    maxBuildContextBytes?: number;
  };
  /** The caller's identity. */
  identity: { subject: string; scopes: string[] };
}

/** The information that a client needs before it has a credential; served without authentication. */
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
