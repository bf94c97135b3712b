/** Imported caches: asked by key what they hold; a layer is fetched only when a step uses it. */
import { SvcError } from "../../base/errors.ts";
import type { ImageSource, ResolvedManifest } from "../../oci/image.ts";
import { manifestKind } from "../../oci/manifest.ts";
import type { Descriptor, Digest, ImageConfig, Index, Manifest } from "../../oci/types.ts";
import {
  CACHE_CONFIG,
  type CachedMount,
  type CachedStep,
  INLINE_MEMBER,
  readCacheDocument,
} from "./document.ts";

export interface CachePlace {
  source: ImageSource;
  repository: string;
  reference: string;
  /** The cache's name in messages. */
  name: string;
}

/** A blob of an imported cache. */
export interface ForeignBlob {
  descriptor: Descriptor;
  open(signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}

export interface ForeignStep {
  step: CachedStep;
  layer: ForeignBlob;
}

/** Largest config, in bytes; it is read whole. */
const MAX_CONFIG = 64 << 20;

export class ImportedCache {
  #steps = new Map<string, ForeignStep>();
  #links = new Map<string, string>();
  #mounts = new Map<string, { mount: CachedMount; archive: ForeignBlob }>();
  #blobs = new Map<Digest, ForeignBlob>();

  step(key: string): ForeignStep | undefined {
    return this.#steps.get(key);
  }

  link(key: string): string | undefined {
    return this.#links.get(key);
  }

  /** A layer in the packing of its cache. */
  blob(digest: Digest): ForeignBlob | undefined {
    return this.#blobs.get(digest);
  }

  mounts(): { mount: CachedMount; archive: ForeignBlob }[] {
    return [...this.#mounts.values()];
  }

  /**
   * Adds the caches at a place: a cache, or one or more images with inline caches. Returns the number of
   * steps. Throws `manifest_unknown`, or what the registry threw.
   */
  async add(place: CachePlace, mounts: boolean, signal: AbortSignal): Promise<number> {
    const { source, repository, reference, name } = place;
    const top = await source.resolve(repository, reference, { signal });
    if (!top) {
      throw new SvcError("manifest_unknown", `Cannot import cache ${name}: there is no such image`);
    }
    return await this.#document(place, top, mounts, signal, 0);
  }

  async #document(
    place: CachePlace,
    { descriptor, bytes }: ResolvedManifest,
    mounts: boolean,
    signal: AbortSignal,
    depth: number,
  ): Promise<number> {
    const parsed = JSON.parse(new TextDecoder().decode(bytes)) as Partial<Index & Manifest>;
    if (manifestKind(descriptor.mediaType) === "index" || Array.isArray(parsed.manifests)) {
      let steps = 0;
      for (const entry of depth < 2 ? parsed.manifests ?? [] : []) {
        // Attestations are listed beside images, but are none.
        if (entry.platform?.os === "unknown") continue;
        const next = await place.source.resolve(place.repository, entry.digest, { signal });
        if (next) steps += await this.#document(place, next, mounts, signal, depth + 1);
      }
      return steps;
    }
    const { config, layers } = parsed;
    if (!config?.digest || !Array.isArray(layers) || config.size > MAX_CONFIG) return 0;
    const body = await place.source.get(place.repository, config.digest, { signal });
    if (!body) return 0;
    const stream = body.stream() as ReadableStream<Uint8Array<ArrayBuffer>>;
    const content = await new Response(stream).json();
    return config.mediaType === CACHE_CONFIG
      ? this.#take(place, content, layers, mounts)
      : this.#inline(place, content, layers);
  }

  #foreign({ source, repository, name }: CachePlace, descriptor: Descriptor): ForeignBlob {
    const { mediaType, digest, size } = descriptor;
    const blob: ForeignBlob = {
      descriptor: { mediaType, digest, size },
      open: async (signal) => {
        const found = await source.get(repository, digest, { signal });
        if (found) return found.stream();
        throw new SvcError("blob_unknown", `Cannot use cache ${name}: blob ${digest} is missing`);
      },
    };
    this.#blobs.set(digest, blob);
    return blob;
  }

  #take(place: CachePlace, content: unknown, layers: Descriptor[], mounts: boolean): number {
    const document = readCacheDocument(content);
    if (!document) return 0;
    const byDigest = new Map(layers.map((layer) => [layer.digest, layer]));
    let steps = 0;
    for (const step of document.records) {
      const layer = byDigest.get(step.digest!);
      if (!layer || this.#steps.has(step.key)) continue;
      this.#steps.set(step.key, { step, layer: this.#foreign(place, layer) });
      steps++;
    }
    for (const { from, to } of document.links) this.#links.set(from, to);
    for (const mount of mounts ? document.mounts ?? [] : []) {
      const archive = byDigest.get(mount.digest);
      const key = `${mount.folder} ${mount.id}`;
      if (!archive || this.#mounts.has(key)) continue;
      this.#mounts.set(key, { mount, archive: this.#foreign(place, archive) });
    }
    return steps;
  }

  #inline(place: CachePlace, content: unknown, layers: Descriptor[]): number {
    const config = content as (ImageConfig & { [INLINE_MEMBER]?: unknown }) | null;
    const document = readCacheDocument(config?.[INLINE_MEMBER]);
    const diffIDs = config?.rootfs?.diff_ids ?? [];
    if (!document || diffIDs.length !== layers.length) return 0;
    const records = document.records.map((step) => {
      const at = diffIDs.lastIndexOf(step.diffID);
      return { ...step, digest: layers[at]?.digest };
    });
    return this.#take(place, { ...document, records }, layers, false);
  }
}
