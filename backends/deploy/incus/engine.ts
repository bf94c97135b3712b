/** Incus, for the deployments on it. */
import { join } from "node:path";
import type { Logger } from "../../../lib/base/log.ts";
import { readLog } from "../../../lib/deploy/host/log_file.ts";
import { HostPaths } from "../../../lib/docker/own_container.ts";
import type { DeployEngine } from "../shared/engine_api/engine.ts";
import { isActive } from "../shared/engine_api/inspect.ts";
import { EngineNetworks } from "../shared/engine_api/networks.ts";
import { EngineWatch } from "../shared/engine_api/watch.ts";
import { incusAbilities } from "./abilities.ts";
import { IncusCompanions } from "./companions.ts";
import { IncusContainers } from "./containers.ts";
import { imageFinder } from "./image.ts";
import { Names } from "./names.ts";
import { incusNetworks } from "./networks.ts";
import type { IncusPlace } from "./place.ts";
import { IncusSource } from "./source.ts";
import { ensureVolume } from "./volumes.ts";

export interface IncusEngineOptions {
  place: IncusPlace;
  /** Folder of the backend's files. */
  folder: string;
  /** See {@linkcode imageFinder}. */
  maxUnpackedBytes?: number;
  log: Logger;
}

export function incusEngine(
  { place, folder, maxUnpackedBytes, log }: IncusEngineOptions,
): DeployEngine {
  const { client, server } = place;
  let names: Names | undefined;
  const source: IncusSource = new IncusSource({
    ...{ place, log },
    folder: join(folder, "logs"),
    restart: (name) => containers.start(name),
    moved: () => names?.changed(),
  });
  const watch: EngineWatch = new EngineWatch({ source: () => source, log });
  const containers: IncusContainers = new IncusContainers({ place, watch, source });
  const networks = new EngineNetworks(incusNetworks(place), server);
  return {
    name: "incus",
    product: source.product,
    ...{ watch, networks, containers },
    companions: new IncusCompanions(place),
    ready: async () => void await client.server(),
    async about() {
      const { environment: { server_version = "" } } = await client.server();
      return `Incus ${server_version} at ${client.words.address}`;
    },
    told: async () => {
      await client.server();
      return [];
    },
    findImage: imageFinder(maxUnpackedBytes),
    ensureVolume: (volume) => ensureVolume(place, volume),
    // The daemon has a unix socket, and so is on this host.
    hostPaths: () => Promise.resolve(new HostPaths([], [], false)),
    readLogs: (name, instance, options) =>
      readLog(join(folder, "logs", `${name}.log`), instance, {
        ...options,
        ended: () => {
          const found = watch.state(name);
          return !found || !isActive(found);
        },
      }),
    abilities(parts) {
      names = new Names({ place, networks, deployments: parts.deployments, log });
      return incusAbilities({ place, containers, source }, parts);
    },
    async [Symbol.asyncDispose]() {
      await source.close();
      await names?.close();
      await client[Symbol.asyncDispose]();
    },
  };
}
