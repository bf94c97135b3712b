/** The management API's route table. */
import type { ManagementDeps } from "./deps.ts";
import type { Route } from "./route.ts";
import { archiveRoutes } from "./routes/archive.ts";
import { attachRoutes } from "./routes/attach.ts";
import { caretakerRoutes } from "./routes/caretaker.ts";
import { buildRoutes } from "./routes/build.ts";
import { deploymentRoutes } from "./routes/deployments.ts";
import { execRoutes } from "./routes/exec.ts";
import { forwardRoutes } from "./routes/forward.ts";
import { healthRoutes } from "./routes/health.ts";
import { infoRoutes } from "./routes/info.ts";
import { ingressTunnelRoutes } from "./routes/ingress_tunnel.ts";
import { sessionRoutes } from "./routes/session.ts";
import { storageRoutes } from "./routes/storage.ts";
import { logRoutes } from "./routes/logs.ts";
import { managedRoutes } from "./routes/managed.ts";
import { tunnelRoutes } from "./routes/tunnels.ts";
import { watchRoutes } from "./routes/watch.ts";
import { instanceRoutes } from "./routes/instances.ts";

export function managementRoutes(deps: ManagementDeps): Route[] {
  return [
    ...healthRoutes(deps),
    ...infoRoutes(deps),
    ...buildRoutes(deps),
    ...deploymentRoutes(deps),
    ...logRoutes(deps),
    ...execRoutes(deps),
    ...attachRoutes(deps),
    ...forwardRoutes(deps),
    ...instanceRoutes(deps),
    ...archiveRoutes(deps),
    ...watchRoutes(deps),
    ...managedRoutes(deps),
    ...deps.sessions ? sessionRoutes(deps, deps.sessions) : [],
    ...deps.ingress ? ingressTunnelRoutes(deps, deps.ingress) : [],
    ...deps.caretakers ? caretakerRoutes(deps, deps.caretakers) : [],
    ...deps.tunnels ? tunnelRoutes(deps, deps.tunnels) : [],
    ...storageRoutes(deps),
  ];
}
