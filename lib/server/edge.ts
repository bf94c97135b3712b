/** What a request passes before the routes: TLS, authentication, the foreign-page check, the flight record. */
import { hostname } from "node:os";
import type { InternalCredentials } from "../auth/internal.ts";
import type { Logger } from "../base/log.ts";
import { ACTIVITY } from "../config/server/auth.ts";
import { ADVERTISED } from "../config/server/general.ts";
import { NETWORKS } from "../config/server/networks.ts";
import type { SettingsOf } from "../config/table.ts";
import type { DeployBackend } from "../deploy/backend.ts";
import type { Access } from "./access.ts";
import { openActivity } from "./activity.ts";
import type { Answered } from "./activity/entry.ts";
import { AUTH_READS, openServerAuth } from "./auth.ts";
import { type IsOwnName, ownNames } from "./foreign_page.ts";
import type { TlsFiles } from "./http/tls.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { refuseOwnNetworks, type RefusePeer } from "./own_networks.ts";
import type { Route } from "./route.ts";
import { openServerTls } from "./tls.ts";

/** The options that this module reads. */
export const EDGE_READS = [...AUTH_READS, ACTIVITY, ADVERTISED, NETWORKS] as const;

export interface EdgeOptions {
  config: SettingsOf<typeof EDGE_READS>;
  /** The data directory. */
  dataDir: string;
  lifecycle: Lifecycle;
  log: Logger;
}

export interface Edge extends AsyncDisposable {
  access: Access;
  tls?: TlsFiles;
  /** Only where no credential is asked for: the host names by which the server's own pages may know it. */
  isOwnName?: IsOwnName;
  /** Only where no credential is asked for: refuses the server's own builds, and the workloads of the backend. */
  refusePeers?: (backend: () => Promise<Pick<DeployBackend, "caps">>) => RefusePeer;
  note?: (answered: Answered) => void;
  /** Routes that the edge itself adds. */
  routes: Route[];
  /** The server's own credentials for its registry. Absent: its registry needs none. */
  internal?: InternalCredentials;
}

/** Throws `config_invalid` for files that cannot be read: the server never starts more open than configured. */
export async function openEdge({ config, dataDir, lifecycle, log }: EdgeOptions): Promise<Edge> {
  await using cleanup = new AsyncDisposableStack();
  const tls = cleanup.use(await openServerTls(config, log));
  const auth = cleanup.use(await openServerAuth({ config, dataDir, log }));
  const { note, routes } = cleanup.use(openActivity({ config, dataDir, lifecycle, log }));
  const stack = cleanup.move();
  const asksNobody = auth.access.methods.length === 0;
  return {
    access: auth.access,
    refusePeers: asksNobody && config.workloadApi === "refused"
      ? (backend) => refuseOwnNetworks(config.cniSubnetBase, { backend })
      : undefined,
    isOwnName: ownNames({
      hostname: hostname(),
      advertised: [config.advertiseRegistry, config.advertiseUrl],
    }),
    tls,
    note,
    internal: auth.internal,
    routes: [...auth.routes, ...routes],
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
