/** The automatic builder of this server: its engine, image and mode, from the server's settings. */
import { join, resolve } from "node:path";
import { buildInfo } from "../../base/build_info.ts";
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { BUILD } from "../../config/server/build.ts";
import { DELEGATION } from "../../config/server/delegation.ts";
import { CONTAINED } from "../../config/server/general.ts";
import { type RegistryMode, REMOTES } from "../../config/server/registry.ts";
import type { OptionTable, SettingsOf } from "../../config/table.ts";
import type { BackendModule, ServerFolders } from "../../deploy/module.ts";
import { DockerClient } from "../../docker/client.ts";
import { type DockerEndpoint, dockerEndpoint } from "../../docker/endpoint.ts";
import { type ServerPlace, serverPlace } from "../../docker/own_container.ts";
import type { BuilderContainer } from "../delegation.ts";
import { type BuilderMode, EngineBuilder, SOCKET } from "./container.ts";
import { builderImage } from "./image.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The options that it is opened with. */
export const AUTO_BUILDER_READS = [DELEGATION, CONTAINED] as const;

export interface OpenBuilderOptions {
  settings: SettingsOf<typeof AUTO_BUILDER_READS>;
  env: Environment;
  folders: ServerFolders;
  /** What this server's registry shows; the builder's shows the same (SPEC "Builder delegation behaviour" 6). */
  registry: { mode: RegistryMode; host: () => string };
  /** The deploy backend, where this build has it. */
  backend: { name: string; module?: BackendModule };
  log: Logger;
}

/** Settings of builds: they hold wherever a build of this server runs. Paths of this host are none of them. */
const TABLES: readonly OptionTable[] = [BUILD, REMOTES];
const SHARED = [
  ...TABLES.flatMap(({ options }) => options).flatMap(({ env }) => env ?? []),
  "SVC_CNI_SUBNET_BASE",
  "SVC_LOG_LEVEL",
];
const PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"]
  .flatMap((name) => [name, name.toLowerCase()]);

function pick(env: Environment, names: readonly string[]): Record<string, string> {
  const found = names.map((name) => [name, env[name]]).filter(([, value]) => value !== undefined);
  return Object.fromEntries(found);
}

/** The network in which the builder's loopback address is this server's. Throws `prerequisite_missing`. */
function networkOf({ hostNetwork, container }: ServerPlace): string {
  if (hostNetwork) return "host";
  if (container !== undefined) return `container:${container}`;
  throw new SvcError(
    "prerequisite_missing",
    "Cannot start a builder: this server's container has a network of its own, and the engine does not know " +
      "the container, so that no builder can be reached",
    {
      help:
        "run the server's container in the host's network, set SVC_HOST_NETWORK=1 where it is, or name " +
        "a builder with SVC_BUILDER_URL",
    },
  );
}

type LocalEndpoint = DockerEndpoint & { kind: "unix" };

/** The engine that the builder runs in: the backend's, or else Docker's. */
function engineOf({ backend, env, folders }: OpenBuilderOptions): LocalEndpoint {
  const endpoint = backend.module?.engine?.endpoint(folders) ?? dockerEndpoint({
    host: env.DOCKER_HOST,
    tls: Boolean(env.DOCKER_TLS_VERIFY),
    certPath: env.DOCKER_CERT_PATH,
  });
  if (endpoint.kind === "unix") return endpoint;
  throw new SvcError(
    "prerequisite_missing",
    `Cannot start a builder: the container engine at ${endpoint.address} is not on this host`,
    { help: "run a builder there, and name it with SVC_BUILDER_URL" },
  );
}

/** Another text for each socket that takes the path: a container has the one that was there when it was made. */
async function madeAt(path: string): Promise<string> {
  const found = await Deno.stat(path).catch(() => undefined);
  return `${found?.ino} ${found?.mtime?.getTime()}`;
}

/** The builder's registry mode: this server's. */
function modeOf(
  { registry, backend: { name, module } }: OpenBuilderOptions,
  { path }: LocalEndpoint,
): (place: ServerPlace) => Promise<BuilderMode> {
  if (registry.mode !== "host-native") return () => Promise.resolve({ kind: "storage" });
  const engine = module?.engine;
  if (!engine) {
    throw new SvcError(
      "unsupported",
      `Cannot start a builder: the registry shows the images of ${name}, and a builder in a container ` +
        "cannot put any there",
      {
        help:
          "set SVC_REGISTRY_SOURCE=off or --storage, so that the builder pushes to this server; or run " +
          "the server as root",
      },
    );
  }
  return async ({ paths }) => ({
    kind: "engine",
    socket: paths.toHost(path),
    made: await madeAt(path),
    env: {
      ...engine.variables(SOCKET),
      SVC_DEPLOY_BACKEND: name,
      // Names of this server's registry mean the engine's images there, too.
      SVC_ADVERTISE_REGISTRY: registry.host(),
    },
  });
}

/**
 * Throws `prerequisite_missing` for an engine whose host is not this one: nothing here reaches a builder there. Throws
 * `unsupported` where the builder could not have the server's registry mode.
 */
export function openEngineBuilder(options: OpenBuilderOptions): BuilderContainer {
  const { settings, env, folders, backend, log } = options;
  const endpoint = engineOf(options);
  const mode = modeOf(options, endpoint);
  const engine = new DockerClient({ endpoint, product: backend.module?.engine?.product });
  const { executable } = buildInfo();
  return new EngineBuilder({
    engine,
    image: () =>
      builderImage({
        engine,
        executable: executable && resolve(executable),
        image: settings.builderImage,
        base: settings.builderBaseImage,
        record: join(folders.dataDir, "builder-image.json"),
        proxies: pick(env, PROXIES),
        log: (message, fields) => log.info(message, fields),
      }),
    async place() {
      const place = await serverPlace(engine, settings);
      return { network: networkOf(place), mode: await mode(place) };
    },
    env: pick(env, [...SHARED, ...PROXIES]),
    log,
  });
}
