/** Delivers solved plans: to registries, or as archives that the client takes. */
import { SvcError } from "../../base/errors.ts";
import type { BuildOutput, BuildResult, BuiltCache } from "../../api/build.ts";
import type { CacheToSpec } from "../../api/build_cache_spec.ts";
import type { OutputSpec } from "../../api/build_output.ts";
import { formatPlatform } from "../../oci/platform.ts";
import type { ImageResolver } from "../../oci/resolver.ts";
import { cacheImage, cachePacking, inlineDocument } from "../cache/export.ts";
import { chainIDs } from "../../snapshot/unpack.ts";
import { chain } from "../plan/graph.ts";
import type { Engine } from "../solve/engine_context.ts";
import { parseAnnotation, parseAnnotationField } from "./annotations.ts";
import { imageArchive } from "./archive.ts";
import { assemble, type Extra, type ImageForm, type SolvedPlan } from "./assemble.ts";
import type { ImageContent, PlatformContent } from "./content.ts";
import type { Layers } from "./layers.ts";
import { DEFAULT_LEVELS, type Packing, packingKey } from "./packer_wire.ts";
import { pushImage, targetsOf } from "./push.ts";
import { rootfsArchive } from "./rootfs.ts";
import type { Spool } from "./spool.ts";

export interface ExportRequest {
  solved: readonly SolvedPlan[];
  images: ImageResolver;
  /** Image names for outputs that have none of their own. */
  tags: string[];
  outputs: readonly OutputSpec[];
  /** In the form of `--annotation`. */
  annotations: readonly string[];
  cacheTo: readonly CacheToSpec[];
  layers: Layers;
  spool: Spool;
  /** Attestations; for images only, not for docker archives and file systems. */
  extrasOf?: (images: readonly PlatformContent[], form: ImageForm) => Promise<Extra[]>;
  onWarning: (message: string) => void;
  onProgress: (label: string, current: number, total?: number) => void;
  signal: AbortSignal;
}

export type Exported = Pick<
  BuildResult,
  | "digest"
  | "imageId"
  | "mediaType"
  | "descriptorSize"
  | "names"
  | "size"
  | "platforms"
  | "outputs"
  | "caches"
>;

/** Refuses outputs that cannot be delivered, before any work is done. */
export function checkExport(
  request: Pick<ExportRequest, "images" | "tags" | "outputs" | "annotations" | "cacheTo">,
): void {
  for (const { ref } of request.cacheTo) {
    if (!ref || !request.images.target(ref).load) continue;
    throw new SvcError(
      "registry_read_only",
      `Cannot export the cache to ${ref}: an engine's image store takes images alone`,
    );
  }
  for (const output of request.outputs) {
    formOf(output, request.annotations);
    if (output.type === "image" && output.push) targetsOf(request.images, namesOf(output, request));
  }
}

const namesOf = (output: OutputSpec, { tags }: Pick<ExportRequest, "tags">) =>
  output.names.length > 0 ? output.names : tags;

/** The packings that the outputs need for the steps' layers. */
export function packingsOf(outputs: readonly OutputSpec[]): Packing[] {
  const packings = new Map<string, Packing>();
  for (const output of outputs) {
    if (output.type === "tar" || output.type === "local") continue;
    const packing = packingOf(output);
    packings.set(packingKey(packing), packing);
  }
  return [...packings.values()];
}

const packingOf = ({ compression, compressionLevel }: OutputSpec): Packing => ({
  compression,
  level: compressionLevel ?? DEFAULT_LEVELS[compression],
});

function formOf(output: OutputSpec, annotations: readonly string[]): ImageForm {
  const { forceCompression, dockerTypes } = output;
  return {
    packing: packingOf(output),
    forceCompression,
    dockerTypes,
    annotations: [
      ...annotations.flatMap(parseAnnotation),
      ...output.annotations.map(parseAnnotationField),
    ],
  };
}

class Exporter {
  #engine: Engine;
  #request: ExportRequest;
  #layers: Layers;
  /** Images by the options in which they differ. */
  #images = new Map<string, Promise<ImageContent>>();

  constructor(engine: Engine, request: ExportRequest) {
    this.#engine = engine;
    this.#request = request;
    this.#layers = request.layers;
  }

  async run(): Promise<Exported> {
    const { outputs } = this.#request;
    let first: ImageContent | undefined;
    const names = new Set<string>();
    const made: BuildOutput[] = [];
    for (const [index, output] of outputs.entries()) {
      if (output.type === "tar" || output.type === "local") {
        made.push(await this.#rootfs(index, output));
        continue;
      }
      const image = await this.#image(output);
      first ??= image;
      if (output.type === "image") {
        for (const name of await this.#push(output, image)) names.add(name);
      } else if (output.type !== "cacheonly") made.push(await this.#archive(index, output, image));
    }
    if (first) await this.#nameChains(first);
    const caches = await this.#caches();
    return {
      digest: first?.root.descriptor.digest ?? "",
      imageId: first?.platforms[0].config.digest ?? "",
      ...(first && {
        mediaType: first.root.descriptor.mediaType,
        descriptorSize: first.root.descriptor.size,
      }),
      names: [...names],
      size: first?.platforms.reduce((sum, { size }) => sum + size, 0) ?? 0,
      ...(first && first.platforms.length + first.children.length > 1 && {
        platforms: first.platforms.map(({ platform, manifest, config, size }) => ({
          platform: formatPlatform(platform),
          digest: manifest.digest,
          imageId: config.digest,
          size,
        })),
      }),
      ...(made.length > 0 && { outputs: made }),
      ...(caches.length > 0 && { caches }),
    };
  }

  #image(output: OutputSpec): Promise<ImageContent> {
    const { solved, extrasOf, annotations } = this.#request;
    const form = formOf(output, annotations);
    const docker = output.type === "docker";
    const key = JSON.stringify([form, docker]);
    let image = this.#images.get(key);
    if (!image) {
      const inline = this.#inline(solved);
      image = assemble(solved, this.#layers, form, {
        ...(!docker && extrasOf && { extrasOf: (images) => extrasOf(images, form) }),
        ...(inline && {
          inlineOf: (one) => inlineDocument(this.#engine, one, this.#layers, form.packing),
        }),
      });
      this.#images.set(key, image);
    }
    return image;
  }

  async #push(output: OutputSpec, image: ImageContent): Promise<string[]> {
    const { images, onProgress, signal } = this.#request;
    const { imageStore } = this.#engine;
    const stored = imageStore !== undefined && output.store && !output.byDigest;
    if (!output.push && !stored) return [];
    const wanted = namesOf(output, this.#request);
    const { targets, names } = targetsOf(images, wanted, output.byDigest);
    // Open until all is pushed: pushes may read blobs that are already in the image store.
    await using sink = stored && names.length > 0 ? await imageStore.open() : undefined;
    if (sink) await pushImage(image, { sink, repository: "", tags: names }, { onProgress, signal });
    if (!output.push) return [];
    for (const target of targets) await pushImage(image, target, { onProgress, signal });
    return names;
  }

  async #archive(index: number, output: OutputSpec, image: ImageContent): Promise<BuildOutput> {
    const { spool, signal } = this.#request;
    const { type } = output as { type: "oci" | "docker" };
    const names = namesOf(output, this.#request);
    const { id, size } = await spool.put(imageArchive(image, type, names, signal), signal);
    return { index, type, id, size };
  }

  /** True where the image carries a cache. Its layers must then have the files' real times for later steps. */
  #inline(solved: readonly SolvedPlan[]): boolean {
    if (!this.#request.cacheTo.some(({ type }) => type === "inline")) return false;
    if (solved[0].plan.epoch === undefined) return true;
    this.#request.onWarning(
      "cache type=inline is left out: the image's layers do not have the times of the steps; " +
        "export it with type=registry",
    );
    return false;
  }

  async #caches(): Promise<BuiltCache[]> {
    const made: BuiltCache[] = [];
    for (const [index, spec] of this.#request.cacheTo.entries()) {
      if (spec.type === "inline") continue;
      try {
        made.push(await this.#cache(index, spec));
      } catch (error) {
        this.#request.signal.throwIfAborted();
        if (!spec.ignoreError) throw error;
        this.#request.onWarning(`export cache: ${(error as Error).message}`);
      }
    }
    return made;
  }

  async #cache(index: number, spec: CacheToSpec): Promise<BuiltCache> {
    const { solved, images, spool, onProgress, signal } = this.#request;
    const { mode, mounts, ref } = spec;
    const form = { mode, mounts, packing: cachePacking(spec) };
    const content = await cacheImage(this.#engine, solved, this.#layers, form);
    const { digest } = content.root.descriptor;
    const size = content.blobs.reduce((sum, { descriptor }) => sum + descriptor.size, 0);
    if (ref === undefined) {
      const { id } = await spool.put(imageArchive(content, "oci", [], signal), signal);
      return { index, digest, size, id };
    }
    const { targets: [target], names: [name] } = targetsOf(images, [ref]);
    await pushImage(content, target, { onProgress, signal });
    return { index, digest, size, name };
  }

  async #rootfs(index: number, output: OutputSpec): Promise<BuildOutput> {
    const { spool, solved, signal } = this.#request;
    const { type } = output as { type: "tar" | "local" };
    const { id, size } = await spool.put(rootfsArchive(this.#engine, solved, signal), signal);
    return { index, type, id, size };
  }

  /** Names the layers' snapshots by chain id, so that a deployment of the image finds them unpacked. */
  async #nameChains(image: ImageContent): Promise<void> {
    for (const [at, { plan, outcomes }] of this.#request.solved.entries()) {
      // These layers have other times than the snapshots.
      if (plan.epoch !== undefined) continue;
      const own = chain(plan.root).filter((vertex) => vertex.kind !== "image");
      const { diffIDs } = image.platforms[at];
      const chains = chainIDs(diffIDs).slice(diffIDs.length - own.length);
      for (const [index, vertex] of own.entries()) {
        await this.#engine.snapshotter.alias(chains[index], outcomes.get(vertex)!.snapshot!);
      }
    }
  }
}

/** Throws what a registry threw, or `blob_unknown` where a layer of the base image is gone. */
export async function exportResult(engine: Engine, request: ExportRequest): Promise<Exported> {
  return await new Exporter(engine, request).run();
}
