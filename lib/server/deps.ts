/** What the management routes work on; main.ts composes it. */
import type { InternalCredentials } from "../auth/internal.ts";
import type { BuildInfo } from "../base/build_info.ts";
import type { Builder } from "../build/builder.ts";
import type { Delegation } from "./delegation.ts";
import type { DeployBackend } from "../deploy/backend.ts";
import type { Access } from "./access.ts";
import type { BuildCacheUpkeep } from "./build_cache.ts";
import type { Tunnels } from "../tunnel/tunnels.ts";
import type { Upkeep } from "../store/upkeep.ts";
import type { ServerIngress } from "./ingress/ingress.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { DeploySessions } from "./sessions/sessions.ts";

export interface ForwardTimes {
  /** Milliseconds without a datagram, in either direction, after which a UDP flow ends. */
  idleMs: number;
  /** Milliseconds between signs of life of a forwarded connection. */
  beatMs: number;
}

export interface ManagementDeps {
  lifecycle: Lifecycle;
  access: Access;
  build: BuildInfo;
  /** What clients are told deploy targets can pull from; known once the listener is bound. */
  registryHost: () => string;
  /** Constructed on first use; throws what stands in the way, and tries again on the next call. */
  builder: () => Promise<Builder>;
  /** The server's own credentials for its registry; absent: it asks for none. */
  internal?: InternalCredentials;
  /** Where builds go instead; absent: nowhere. */
  delegation?: Delegation;
  deploy: {
    /** The selected backend's name. */
    name: string;
    /** Constructed on first use; throws `not_in_build` or `prerequisite_missing` where it cannot be. */
    backend: () => Promise<DeployBackend>;
  };
  /** Absent: nothing is routed, as in tests of other routes. */
  ingress?: ServerIngress;
  /** Absent: there are none, as in tests of other routes. */
  sessions?: DeploySessions;
  /** Absent: there are none, as in tests of other routes. */
  tunnels?: Tunnels;
  /** Absent: the defaults of the route. */
  forward?: Partial<ForwardTimes>;
  storage: Upkeep;
  /** What the builder keeps; absent: nothing. */
  buildCache?: Pick<BuildCacheUpkeep, "usage">;
  limits: {
    buildConcurrency: number;
    maxBuildContextBytes?: number;
    /** Named contexts are read on demand, whatever their callers ask for. */
    lazyBuild?: boolean;
  };
}
