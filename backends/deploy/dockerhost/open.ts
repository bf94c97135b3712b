/** The dockerhost backend's entry for the table. */
import { join } from "node:path";
import type { DeployBackend } from "../../../lib/deploy/backend.ts";
import type { BackendModule, BackendParts } from "../../../lib/deploy/module.ts";
import { DockerClient } from "../../../lib/docker/client.ts";
import { type DockerEndpoint, dockerEndpoint } from "../../../lib/docker/endpoint.ts";
import type { EngineConfig } from "../shared/engine_api/apply.ts";
import type { CompanionOptions } from "../shared/engine_api/companions.ts";
import type { EngineBehaviour } from "../shared/engine_api/behaviour.ts";
import { openDockerBackend } from "../shared/engine_api/docker_engine.ts";
import { serverIdentity } from "../shared/engine_api/identity.ts";
import { DOCKERHOST_FIELDS } from "./fields.ts";
import type { DockerhostSettings } from "./options.ts";
import { requireReachable, seesRoutes } from "./reach.ts";

export const DOCKER: EngineBehaviour = {
  name: "dockerhost",
  product: "the Docker daemon",
  // json-file keeps text, and replaces bytes that are not UTF-8. What its operator chose otherwise stays.
  logDriver: (ofEngine) => ofEngine === "json-file" ? "local" : undefined,
  // It answers a removal before it tells it.
  lateEvents: true,
  requireReachable,
  seesRoutes,
};

export interface DockerhostOptions
  extends Pick<BackendParts, "dataDir" | "images" | "log" | "namespaces"> {
  endpoint: DockerEndpoint;
  config: EngineConfig;
  companions?: CompanionOptions;
}

/** All files are below `dockerhost` in the data directory. */
export async function createDockerhostBackend(
  { dataDir, images, log, endpoint, config, companions, namespaces }: DockerhostOptions,
): Promise<DeployBackend> {
  const folder = join(dataDir, DOCKER.name);
  return await openDockerBackend({
    client: new DockerClient({
      endpoint,
      product: DOCKER.product,
      help: "start the daemon, set DOCKER_HOST, or start the server with SVC_DEPLOY_BACKEND=bare",
    }),
    behaviour: DOCKER,
    server: await serverIdentity(folder),
    folder,
    config,
    fields: DOCKERHOST_FIELDS,
    images,
    companions,
    namespaces,
    log,
  });
}

export function dockerhostModule(settings: DockerhostSettings): BackendModule {
  const { dockerHost: host, dockerTlsVerify = "", dockerCertPath: certPath } = settings;
  const endpoint = () => dockerEndpoint({ host, tls: dockerTlsVerify !== "", certPath });
  return {
    takesOver: true,
    engine: {
      product: DOCKER.product,
      endpoint,
      variables: (socket) => ({ DOCKER_HOST: `unix://${socket}` }),
    },
    validate: () => Promise.resolve(void endpoint()),
    open: (parts) =>
      createDockerhostBackend({
        ...parts,
        endpoint: endpoint(),
        ...parts.caretakers && {
          companions: {
            caretakers: parts.caretakers,
            variable: "SVC_DOCKER_REMOTE",
            always: settings.dockerRemote,
          },
        },
        config: {
          allowBindSources: settings.allowBindSources,
          hostPathMap: settings.hostPathMap,
          allowPrivileged: settings.allowPrivileged,
          maxUnpackedBytes: settings.maxBuildUnpackedBytes,
          pidsLimit: settings.workloadPidsLimit,
        },
      }),
  };
}
