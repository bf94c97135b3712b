/** What the management routes work on; main.ts puts it together. */
import type { InternalCredentials } from "../auth/internal.ts";
import type { BuildInfo } from "../base/build_info.ts";
import type { Builder } from "../build/builder.ts";
import type { RegistryMode } from "../config/server/registry.ts";
import type { Delegation } from "./delegation.ts";
import type { DeployChoice } from "./deploy_facts.ts";
import type { Access } from "./access.ts";
import type { ServerCaretakers } from "./caretakers/caretakers.ts";
import type { CredentialService } from "./credentials/service.ts";
import type { CallerMountService } from "../deploy/mounts/service.ts";
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
  registryMode: RegistryMode;
  registryWritable: boolean;
  /** The registry host that clients are told for deploy targets; known once the listener is bound. */
  registryHost: () => string;
  /** True for registry hosts that are this server. */
  isOwnHost: (host: string) => boolean;
  /** Constructed on first use. Throws where a prerequisite is missing; the next call tries again. */
  builder: () => Promise<Builder>;
  /** The server's own credentials for its registry. Absent: its registry needs none. */
  internal?: InternalCredentials;
  /** Where builds are delegated to. Absent: this process builds. */
  delegation?: Delegation;
  deploy: DeployChoice;
  /** Absent: there is no ingress, as in tests of other routes. */
  ingress?: ServerIngress;
  /** Absent: there are no sessions, as in tests of other routes. */
  sessions?: DeploySessions;
  /** Absent: there are no companions, as in tests of other routes. */
  caretakers?: ServerCaretakers;
  /** What companions ask for credentials. Absent: nobody, as in tests of other routes. */
  credentials?: Pick<CredentialService, "lead">;
  /** Where companions' streams of mounts go. Absent: nowhere, as in tests of other routes. */
  mounts?: Pick<CallerMountService, "lead">;
  /** Absent: there are no tunnels, as in tests of other routes. */
  tunnels?: Tunnels;
  /** Absent: the route's defaults. */
  forward?: Partial<ForwardTimes>;
  storage: Upkeep;
  /** The builder's cache. Absent: there is none. */
  buildCache?: Pick<BuildCacheUpkeep, "usage">;
  limits: {
    buildConcurrency: number;
    maxBuildContextBytes?: number;
    /** Named contexts are read on demand, whatever the caller asks for. */
    lazyBuild?: boolean;
  };
}
