/** What is under /v2/, and where builds and deployments find and put images of this server: the registry's mode. */
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { holdsEntries } from "../base/fs.ts";
import type { Logger } from "../base/log.ts";
import type { PROCESS } from "../config/server/general.ts";
import { type REGISTRY, type RegistryMode, registryMode } from "../config/server/registry.ts";
import type { SettingsOf } from "../config/table.ts";
import type { DeployBackend } from "../deploy/backend.ts";
import { parseReference } from "../oci/reference.ts";
import type { ImageToLoad } from "../oci/resolver.ts";
import { enginePush } from "../registry/engine_push.ts";
import { type EngineImages, EngineView, forUnion } from "../registry/engine_view.ts";
import { unionView } from "../registry/union.ts";
import type { RegistryStore, RegistryView } from "../registry/view.ts";
import type { EngineWriter } from "../store/engine_writer.ts";
import type { ChosenBackends } from "./given.ts";
import type { ResolverOptions } from "./images.ts";
import { type LocalImages, refuseBuilder } from "./local_images.ts";
import type { Outside } from "./outside.ts";

/** Throws `config_invalid` where the backend has no images to show. */
export const modeOf = (
  { deploy, storage }: ChosenBackends,
  settings: SettingsOf<[typeof REGISTRY, typeof PROCESS]>,
): RegistryMode =>
  registryMode(settings, {
    backend: deploy.name,
    hasImages: deploy.hasImages,
    storageGiven: storage.given,
    rootless: settings.rootless,
  });

type Backend = () => Promise<Pick<DeployBackend, "name" | "caps">>;

export interface ServerRegistryOptions {
  mode: RegistryMode;
  /** The content store, or the mirror above it. */
  store: RegistryStore;
  /** True for registry hosts that are this server. */
  isOwn: (host: string) => boolean;
  /** This server's address in the names of images that are pushed into the engine. */
  ownHost: () => string;
  /** The engine takes pushes. */
  takesPushes: boolean;
}

export class ServerRegistry {
  readonly mode: RegistryMode;
  /** For the routes of /v2/. */
  readonly view: RegistryView;
  /** For builds and deployments. */
  readonly local: LocalImages;
  readonly #engine: EngineView;
  #backend: Backend | undefined;

  constructor({ mode, store, isOwn, ownHost, takesPushes }: ServerRegistryOptions) {
    this.mode = mode;
    this.#engine = new EngineView({ images: () => this.#images(), isOwn, ownHost });
    if (mode === "store") {
      this.view = { reader: store, writer: store };
      this.local = { source: store, sink: store };
      return;
    }
    const engine = this.#engine;
    if (mode === "host-native" && takesPushes) {
      const sink = enginePush(engine, () => this.#writer());
      this.view = { reader: engine, writer: sink };
      this.local = { source: engine, sink, engine };
      return;
    }
    this.view = mode === "union" ? unionView(store, forUnion(engine)) : { reader: engine };
    this.local = {
      source: this.view.reader,
      sink: store,
      engine,
      ...(mode === "union" && { kept: store }),
      ...(mode === "host-native" && { load: (image, signal) => this.#load(image, signal) }),
    };
  }

  /** Says which backend's images these are; nothing is opened yet. */
  connect(backend: Backend): void {
    this.#backend = backend;
  }

  async #images(): Promise<EngineImages> {
    const { name, caps } = await this.#backend!();
    if (caps.images) return caps.images;
    throw new SvcError(
      "unsupported",
      `Cannot show images: the backend ${name} does not show its own`,
    );
  }

  async #writer(): Promise<EngineWriter> {
    const { writer } = await this.#images();
    if (writer) return writer;
    throw new SvcError("unsupported", "Cannot push: the deploy backend's engine takes no images");
  }

  async #load(image: ImageToLoad, signal?: AbortSignal): Promise<void> {
    const { name, caps } = await this.#backend!();
    if (!caps.load) {
      throw new SvcError("unsupported", `Cannot load the image: the backend ${name} takes none`);
    }
    const names = new Set(image.names);
    // A name with this server's address would else go on to mean the image before.
    for (const name of image.names) {
      refuseBuilder(parseReference(name), name);
      const colon = name.lastIndexOf(":");
      const aliases = await this.#engine.aliases(name.slice(0, colon), name.slice(colon + 1), {
        signal,
      });
      for (const alias of aliases) names.add(alias);
    }
    await caps.load({ ...image, names: [...names] }, { signal });
  }
}

/** Warns where everybody may read the engine's images. */
export function warnOfAnonymous(mode: RegistryMode, anonymous: boolean, log: Logger): void {
  if (mode === "store" || !anonymous) return;
  log.warn("anyone who reaches this server may read all images of the engine, private ones too", {
    reason: "SVC_REGISTRY_ANONYMOUS_PULL is set",
    help: "unset it, or set SVC_REGISTRY_SOURCE=off",
  });
}

/** Warns where images of an earlier server are in the data directory and are not shown. */
export async function warnOfHidden(
  mode: RegistryMode,
  dataDir: string,
  log: Logger,
): Promise<void> {
  const folder = join(dataDir, "registry");
  if (mode !== "host-native" || !await holdsEntries(folder)) return;
  log.warn("the registry shows the engine's images, not those that were pushed to it before", {
    kept: folder,
    help: `set SVC_REGISTRY_SOURCE=off for those, or --storage ${folder} for both`,
  });
}

/** Image sources and sinks: this server's registry for its own names, other registries for theirs. */
export function resolverOptions(
  local: LocalImages,
  { isOwn, remote, advertised }: Outside,
  bound: { hostname?: string; port: number },
): ResolverOptions {
  return {
    local,
    isOwn: isOwn(bound),
    ownHost: () => advertised ?? `localhost:${bound.port}`,
    remote(host, login, via) {
      const found = remote(host, login && { credentials: () => Promise.resolve(login) });
      return via === undefined ? found : found.through(via);
    },
  };
}
