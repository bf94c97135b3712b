/** The image that a deployment runs: in the engine already, or streamed into it from where svc finds it. */
import { SvcError } from "../../../../lib/base/errors.ts";
import type { ApplyProgress } from "../../../../lib/deploy/backend.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { engineApi } from "../../../../lib/docker/images/engine.ts";
import { ImageLoader } from "../../../../lib/docker/images/load.ts";
import { LayerProofs } from "../../../../lib/docker/images/layer_proofs.ts";
import type { ImageResolver, ResolvedImage } from "../../../../lib/oci/resolver.ts";
import type { ContainerConfig } from "../../../../lib/oci/types.ts";

export interface EngineImage {
  /** What the engine runs. */
  id: string;
  /** The complete name. */
  name: string;
  /** Of the manifest where it is known, else the engine's id. */
  digest: string;
  /** Names of its labels. */
  labels: readonly string[];
  /** Where the engine does not apply it by itself. */
  config?: ContainerConfig;
}

interface InspectedImage {
  Id: string;
  Config?: { Labels?: Record<string, string> | null } | null;
}

export interface FindOptions {
  /** False: the engine's own images are not the caller's to run. */
  mayPull?: boolean;
  onProgress: ApplyProgress;
  signal?: AbortSignal;
}

/** An image that the engine has. Without a digest of its manifest its id is taken. */
const known = (found: InspectedImage, name: string, digest = found.Id): EngineImage => ({
  ...{ id: found.Id, name, digest },
  labels: Object.keys(found.Config?.Labels ?? {}),
});

export class DeployImages {
  readonly #client: DockerClient;
  readonly #loader: ImageLoader;
  readonly #proofs: LayerProofs;

  /** `maxUnpackedBytes`: of an image whose layers are read before it is given to the engine; 0: no limit. */
  constructor(client: DockerClient, maxUnpackedBytes?: number) {
    this.#client = client;
    this.#proofs = new LayerProofs({ maxUnpackedBytes });
    this.#loader = new ImageLoader(engineApi(client));
  }

  async #inspect(name: string, signal?: AbortSignal): Promise<InspectedImage | undefined> {
    try {
      return await this.#client.json<InspectedImage>({
        path: `/images/${name}/json`,
        attempted: `Cannot look for image ${name}`,
        signal,
      });
    } catch (error) {
      if (error instanceof SvcError && ["not_found", "argument_invalid"].includes(error.code)) {
        return undefined;
      }
      throw error;
    }
  }

  /**
   * The engine's own image where the name is the engine's to say. Else asks svc's resolver: a tag may mean another
   * image than it did. Where that finds none, or cannot ask, the engine's image of that name is taken. What the
   * engine has is not loaded again.
   */
  async find(
    name: string,
    images: ImageResolver,
    { mayPull = true, onProgress, signal }: FindOptions,
  ): Promise<EngineImage> {
    onProgress(`resolving ${name}`);
    const held = await images.held?.(name, { signal });
    const there = held === undefined ? undefined : await this.#inspect(held, signal);
    if (there) return known(there, held!);
    let resolved: ResolvedImage;
    try {
      resolved = await images.resolve(name, { signal });
    } catch (error) {
      const away = mayPull && error instanceof SvcError &&
        ["manifest_unknown", "name_unknown", "upstream_failed", "unauthorized", "timeout"]
          .includes(error.code);
      const own = away ? await this.#inspect(name, signal) : undefined;
      if (!own) throw error;
      return known(own, name);
    }
    if (resolved.apart) {
      // An engine that has a layer does not read it: its id alone would give what is in it.
      onProgress(`checking the layers of ${resolved.name}`);
      await this.#proofs.require(resolved, signal);
    }
    const { source, repository, descriptor } = resolved;
    let found = await this.#has(resolved, signal);
    if (!found) {
      onProgress(`loading ${resolved.name} into the engine`);
      const names = resolved.name.includes("@") ? [] : [resolved.name];
      await this.#loader.load({ source, repository, digest: descriptor.digest, names }, signal);
      found = await this.#has(resolved, signal);
    }
    if (found) return known(found, resolved.name, descriptor.digest);
    throw new SvcError("upstream_failed", `Cannot load ${resolved.name}: the engine lost it`);
  }

  /** Stores of manifests know an image by its manifest, others by its config. */
  async #has({ manifest, descriptor }: ResolvedImage, signal?: AbortSignal) {
    for (const digest of [manifest.config.digest, descriptor.digest]) {
      const found = await this.#inspect(digest, signal);
      if (found) return found;
    }
  }
}
