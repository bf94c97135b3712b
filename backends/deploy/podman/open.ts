/** The podman backend's entry for the table. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { DeployBackend } from "../../../lib/deploy/backend.ts";
import type { BackendModule, BackendParts, ServerFolders } from "../../../lib/deploy/module.ts";
import { DockerClient } from "../../../lib/docker/client.ts";
import type { DockerEndpoint } from "../../../lib/docker/endpoint.ts";
import type { EngineConfig } from "../shared/engine_api/apply.ts";
import type { CompanionOptions } from "../shared/engine_api/companions.ts";
import { openDockerBackend } from "../shared/engine_api/docker_engine.ts";
import { serverIdentity } from "../shared/engine_api/identity.ts";
import { PODMAN_ENGINE } from "./behaviour.ts";
import { podmanEndpoint } from "./endpoint.ts";
import { PODMAN_FIELDS } from "./fields.ts";
import type { PodmanSettings } from "./options.ts";
import { PodmanService, serviceEndpoint } from "./service.ts";

export interface PodmanOptions
  extends Pick<BackendParts, "dataDir" | "runDir" | "images" | "log" | "namespaces"> {
  /** Absent: the backend runs the service itself. */
  endpoint?: DockerEndpoint;
  config: EngineConfig;
  companions?: CompanionOptions;
}

/** All files are below `podman` in the data directory. */
export async function createPodmanBackend(
  { dataDir, runDir, images, log, endpoint, config, companions, namespaces }: PodmanOptions,
): Promise<DeployBackend> {
  const folder = join(dataDir, PODMAN_ENGINE.name);
  const own = serviceFolder({ dataDir, runDir });
  const service = endpoint ? undefined : await PodmanService.start({ folder: own, log });
  const client = new DockerClient({
    endpoint: endpoint ?? serviceEndpoint(own),
    product: PODMAN_ENGINE.product,
    help: service
      ? "the server starts podman's service again by itself; see its log"
      : "start the service (podman system service), or set SVC_PODMAN_SOCKET to the one to use",
  });
  const release = async () => await service?.[Symbol.asyncDispose]();
  try {
    return await openDockerBackend({
      client,
      behaviour: PODMAN_ENGINE,
      server: await serverIdentity(folder),
      folder,
      config,
      fields: PODMAN_FIELDS,
      images,
      companions,
      namespaces,
      log,
      release,
    });
  } catch (error) {
    await client[Symbol.asyncDispose]();
    await release();
    throw error;
  }
}

/** Two servers of one host share the run folder. */
function serviceFolder({ dataDir, runDir }: ServerFolders): string {
  const own = createHash("sha256").update(dataDir).digest("hex").slice(0, 12);
  return join(runDir, own, "podman");
}

export function podmanModule(settings: PodmanSettings): BackendModule {
  const place = { socket: settings.podmanSocket ?? "", service: settings.podmanService };
  return {
    takesOver: true,
    engine: {
      product: PODMAN_ENGINE.product,
      endpoint: (folders) => podmanEndpoint(place) ?? serviceEndpoint(serviceFolder(folders)),
      variables: (socket) => ({ SVC_PODMAN_SOCKET: socket }),
    },
    /** SPEC "Errors": neither or both end the server's start. */
    validate: () => Promise.resolve(void podmanEndpoint(place)),
    open: (parts) =>
      createPodmanBackend({
        ...parts,
        endpoint: podmanEndpoint(place),
        ...parts.caretakers && {
          companions: {
            caretakers: parts.caretakers,
            variable: "SVC_PODMAN_REMOTE",
            always: settings.podmanRemote,
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
