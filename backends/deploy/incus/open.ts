/** The incus backend's entry for the table. */
import { join } from "node:path";
import { Mutex } from "../../../lib/base/mutex.ts";
import type { DeployBackend } from "../../../lib/deploy/backend.ts";
import type { BackendModule, BackendParts } from "../../../lib/deploy/module.ts";
import { IncusClient } from "../../../lib/incus/client.ts";
import type { EngineConfig } from "../shared/engine_api/apply.ts";
import type { CompanionOptions } from "../shared/engine_api/companions.ts";
import { openEngineBackend } from "../shared/engine_api/backend.ts";
import { serverIdentity } from "../shared/engine_api/identity.ts";
import { incusEngine } from "./engine.ts";
import { INCUS_FIELDS } from "./fields.ts";
import type { IncusSettings } from "./options.ts";

export interface IncusOptions extends Pick<BackendParts, "dataDir" | "images" | "log"> {
  socket: string;
  project: string;
  pool: string;
  insecure: readonly string[];
  config: EngineConfig;
  companions?: CompanionOptions;
}

/** All files are below `incus` in the data directory. */
export async function createIncusBackend(
  { dataDir, images, log, socket, project, pool, insecure, config, companions }: IncusOptions,
): Promise<DeployBackend> {
  const folder = join(dataDir, "incus");
  const server = await serverIdentity(folder);
  const client = new IncusClient({ socket, project });
  return await openEngineBackend({
    engine: incusEngine({
      place: { client, server, pool, insecure, networkLock: new Mutex() },
      folder,
      maxUnpackedBytes: config.maxUnpackedBytes,
      log,
    }),
    fields: INCUS_FIELDS,
    ...{ server, folder, config, images, companions, log },
  });
}

export function incusModule(settings: IncusSettings): BackendModule {
  return {
    takesOver: true,
    open: (parts) =>
      createIncusBackend({
        ...parts,
        socket: settings.incusSocket,
        project: settings.incusProject,
        pool: settings.incusStoragePool,
        insecure: settings.incusInsecureRegistries ?? [],
        ...parts.caretakers && {
          companions: {
            caretakers: parts.caretakers,
            variable: "SVC_INCUS_REMOTE",
            always: settings.incusRemote,
            // SPEC: neither callers' mounts nor egress.
            moreRoles: false,
          },
        },
        config: {
          allowBindSources: settings.allowBindSources,
          allowPrivileged: settings.allowPrivileged,
          maxUnpackedBytes: settings.maxBuildUnpackedBytes,
          pidsLimit: settings.workloadPidsLimit,
        },
      }),
  };
}
