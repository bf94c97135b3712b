/** What stands between a connection and the routes: TLS, who may do what, and the record of it. */
import { hostname } from "node:os";
import type { InternalCredentials } from "../auth/internal.ts";
import type { Logger } from "../base/log.ts";
import type { ServerConfig } from "../config/server_options.ts";
import type { Access } from "./access.ts";
import { openActivity } from "./activity.ts";
import type { Answered } from "./activity/entry.ts";
import { openServerAuth } from "./auth.ts";
import { type IsOwnName, ownNames } from "./foreign_page.ts";
import type { TlsFiles } from "./http/tls.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { refuseOwnNetworks, type RefusePeer } from "./own_networks.ts";
import type { Route } from "./route.ts";
import { openServerTls } from "./tls.ts";

export interface EdgeOptions {
  config: ServerConfig;
  /** The data directory. */
  dataDir: string;
  lifecycle: Lifecycle;
  log: Logger;
}

export interface Edge extends AsyncDisposable {
  access: Access;
  tls?: TlsFiles;
  /** Of a server that asks for no credential: names that its own pages may have. */
  isOwnName?: IsOwnName;
  /** Of a server that asks for no credential: its own builds and workloads are refused. */
  refusePeer?: RefusePeer;
  note?: (answered: Answered) => void;
  /** Rows of its own. */
  routes: Route[];
  /** The server's own credentials for its registry; absent: none is asked for there. */
  internal?: InternalCredentials;
}

/** Throws `config_invalid` for what cannot be read: a server never starts more open than it was told to. */
export async function openEdge({ config, dataDir, lifecycle, log }: EdgeOptions): Promise<Edge> {
  await using cleanup = new AsyncDisposableStack();
  const tls = cleanup.use(await openServerTls(config, log));
  const auth = cleanup.use(await openServerAuth({ config, dataDir, log }));
  const { note, routes } = cleanup.use(openActivity({ config, dataDir, lifecycle, log }));
  const stack = cleanup.move();
  const asksNobody = auth.access.methods.length === 0;
  return {
    access: auth.access,
    refusePeer: asksNobody && config.workloadApi === "refused"
      ? refuseOwnNetworks(config.cniSubnetBase)
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
