/** An engine that speaks the Docker Engine API, for the deployments on it. */
import { join } from "node:path";
import { lazy } from "../../../../lib/base/lazy.ts";
import type { Logger } from "../../../../lib/base/log.ts";
import type { DeployBackend } from "../../../../lib/deploy/backend.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { watchEvents } from "../../../../lib/docker/events.ts";
import { imageAbilities } from "../../../../lib/docker/images/abilities.ts";
import { serverPlace } from "../../../../lib/docker/own_container.ts";
import { engineAbilities } from "./abilities/mod.ts";
import { runningOne } from "./abilities/parts.ts";
import type { EngineConfig } from "./apply.ts";
import { type EngineBackendOptions, openEngineBackend } from "./backend.ts";
import type { EngineBehaviour } from "./behaviour.ts";
import { knowsStartInterval } from "./container.ts";
import { Containers } from "./containers.ts";
import { DockerCompanions } from "./docker_companions.ts";
import { dockerNetworks } from "./docker_networks.ts";
import type { DeployEngine } from "./engine.ts";
import { execIn } from "./exec.ts";
import { DeployImages } from "./images.ts";
import type { Inspected } from "./inspect.ts";
import { serverLabel } from "./labels.ts";
import { readLogs } from "./logs.ts";
import { EngineNetworks } from "./networks.ts";
import { Probes } from "./probes.ts";
import { ensureVolume } from "./volumes.ts";
import { EngineWatch, SETTLED, type WatchSource } from "./watch.ts";

const EVENTS = [
  ...["create", "start", "die", "oom", "stop", "destroy", "health_status", "pause", "unpause"],
  ...["update", "rename"],
];

export interface DockerEngineOptions {
  client: DockerClient;
  behaviour: EngineBehaviour;
  /** Identity of the server's data directory: what carries it is this server's. */
  server: string;
  /** Folder of the backend's files. */
  folder: string;
  config: EngineConfig;
  log: Logger;
  /** Ends what was started for the backend; called when nothing uses the client any more. */
  release?: () => Promise<void>;
}

/** The containers of one server, and what happens to them. */
function watchSource(
  { client, behaviour, server, log }: DockerEngineOptions,
  watch: Pick<EngineWatch, "state" | "closing">,
): WatchSource {
  const { probe, actions = {}, reasonsUntold, lateEvents } = behaviour;
  const label = [serverLabel(server)];
  const names = new Map(Object.entries(actions).map(([name, theirs]) => [theirs, name]));
  const probes = probe && new Probes({
    probe: (container, signal) => probe(client, container, signal),
    state: (container) => watch.state(container),
    signal: watch.closing,
    log,
  });
  return {
    ...{ product: client.words.product, reasonsUntold, lateEvents },
    async events(signal) {
      const event = [...EVENTS, SETTLED, ...Object.values(actions)];
      const filters = { type: ["container"], label, event };
      const events = await watchEvents(client, { filters, signal });
      return (async function* () {
        for await (const event of events) {
          yield { ...event, Action: names.get(event.Action) ?? event.Action };
        }
      })();
    },
    async list(signal) {
      const list = await client.json<{ Id: string }[]>({
        path: "/containers/json",
        query: { all: true, filters: { label } },
        attempted: "Cannot list the containers",
        signal,
      });
      return list.map(({ Id }) => Id);
    },
    inspect: (container, signal) =>
      client.json<Inspected>({
        path: `/containers/${container}/json`,
        attempted: "Cannot look at a container",
        signal,
      }),
    inspected: behaviour.inspected,
    seen: (found) => probes?.see(found),
  };
}

/** Opens a backend on the engine. One that is not there is found when it is. */
export const openDockerBackend = (
  { namespaces, ...options }:
    & DockerEngineOptions
    & Pick<EngineBackendOptions, "fields" | "images" | "companions" | "namespaces">,
): Promise<DeployBackend> =>
  openEngineBackend({
    ...options,
    engine: dockerEngine(options),
    // Namespaces are entered by root, on the engine's own host.
    ...options.client.local && Deno.uid() === 0 && { namespaces },
  });

export function dockerEngine(options: DockerEngineOptions): DeployEngine {
  const { client, behaviour, server, folder, config, log, release } = options;
  const watch = new EngineWatch({ source: (watch) => watchSource(options, watch), log });
  const store = imageAbilities(client, { folder: join(folder, "exports"), log });
  const images = new DeployImages(client, config.maxUnpackedBytes);
  const place = lazy(() => serverPlace(client, config));
  const companions = new DockerCompanions(client, server, { mounts: !behaviour.serverMounts });
  const { requireReachable } = behaviour;
  return {
    name: behaviour.name,
    product: behaviour.product,
    watch,
    networks: new EngineNetworks(dockerNetworks(client, server, behaviour), server),
    containers: new Containers({ client, watch, behaviour, companions }),
    companions,
    fixedRestarts: behaviour.fixedRestarts,
    ready: async () => void await client.daemon(),
    async about() {
      const { product, address } = client.words;
      return `${product} ${(await client.daemon()).version} at ${address}`;
    },
    async told(spec) {
      await behaviour.requireStoppable?.(client, spec);
      const { healthcheck } = spec;
      const { api } = await client.daemon();
      if (!healthcheck?.startInterval || behaviour.probe || knowsStartInterval(api)) return [];
      return ["healthcheck.startInterval: this engine has none; Docker 25 and later have"];
    },
    findImage: (name, resolver, options) => images.find(name, resolver, options),
    ensureVolume: (volume) => ensureVolume(client, server, volume),
    hostPaths: async () => client.local ? (await place.get()).paths : undefined,
    readLogs: (container, instance, options) =>
      readLogs({
        ...{ client, container, instance, ownTail: behaviour.ownTail },
        look: () => watch.look(container),
      }, options),
    ...(requireReachable && {
      requireReachable: (attempted, containers, signal) =>
        requireReachable(client, attempted, containers, signal),
    }),
    abilities(deployed) {
      const parts = { ...deployed, client, behaviour };
      const { execRefusal: refusal, forgottenExec: forgotten } = behaviour;
      return {
        ...engineAbilities(parts),
        images: store.images,
        load: store.load,
        // An engine elsewhere has other folders.
        ...(client.local && { mounts: true as const }),
        exec: async (name, request, { signal } = {}) => {
          const { container, id: instance } = runningOne(parts, name, request.instance);
          return await execIn({ client, container, instance, refusal, forgotten }, request, signal);
        },
      };
    },
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await client[Symbol.asyncDispose]();
      await release?.();
    },
  };
}
