/**
 * Images in the archives of `docker save`: manifest.json names configs, layers and tags. An archive that is
 * an OCI layout too (from docker 25 and later, and from svc) keeps its manifests. For other archives a
 * manifest is made here, over the layers as they are in the archive.
 */
import { SvcError } from "../base/errors.ts";
import { decompressChunks, detectCompression, MAGIC_LENGTH } from "./compression.ts";
import { createDigester, digestOf, isDigest } from "./digest.ts";
import type { ReadOptions, ResolvedManifest } from "./image.ts";
import { blobPath, openLayout, packedBlob, type PackedImages } from "./layout.ts";
import { type LayoutFiles, readDocument, readWhole } from "./layout_files.ts";
import { parseManifest } from "./manifest.ts";
import { formatReference, parseReference } from "./reference.ts";
import { type Descriptor, type Digest, type ImageConfig, type Manifest, MEDIA } from "./types.ts";

interface SavedImage {
  Config: string;
  RepoTags?: string[] | null;
  Layers: string[] | null;
}

const LAYER_TYPES = { none: MEDIA.layerTar, gzip: MEDIA.layerGzip, zstd: MEDIA.layerZstd };
/** Most levels of indexes within indexes. */
const MAX_DEPTH = 4;

/** The complete name, as docker expands it: "app" is "docker.io/library/app:latest". */
export function familiarName(text: string): string {
  const reference = parseReference(text);
  const registry = reference.registry ?? "docker.io";
  const short = registry === "docker.io" && !reference.repository.includes("/");
  return formatReference({
    ...reference,
    registry,
    repository: short ? `library/${reference.repository}` : reference.repository,
    tag: reference.tag ?? (reference.digest ? undefined : "latest"),
  });
}

function sameName(a: string, b: string): boolean {
  try {
    return familiarName(a) === familiarName(b);
  } catch {
    return a === b; // at least one is not an image name
  }
}

class DockerArchive {
  readonly #files: LayoutFiles;
  readonly #signal?: AbortSignal;
  /** Digest → position in the archive. */
  readonly places = new Map<Digest, { path: string; size: number }>();
  readonly manifests = new Map<Digest, ResolvedManifest>();

  constructor(files: LayoutFiles, signal?: AbortSignal) {
    this.#files = files;
    this.#signal = signal;
  }

  invalid(why: string): SvcError {
    return new SvcError(
      "archive_invalid",
      `Cannot read docker archive ${this.#files.label}: ${why}`,
    );
  }

  async saved(): Promise<SavedImage[]> {
    const document = await readDocument(this.#files, "manifest.json", this.#signal);
    if (document === undefined) throw this.invalid("it has no manifest.json");
    const strings = (value: unknown) =>
      value === null || value === undefined ||
      Array.isArray(value) && value.every((item) => typeof item === "string");
    const whole = Array.isArray(document) &&
      document.every((image) =>
        typeof image?.Config === "string" && strings(image.RepoTags) && strings(image.Layers)
      );
    if (!whole) throw this.invalid("manifest.json is not a list of images");
    return document;
  }

  /** The digest that a path promises ("<hex>.json", "blobs/sha256/<hex>"), or undefined. */
  #promised(path: string): Digest | undefined {
    const hex = /(?:^|\/)([0-9a-f]{64})(?:\.json)?$/.exec(path)?.[1];
    return hex && `sha256:${hex}`;
  }

  async config(image: SavedImage): Promise<{ descriptor: Descriptor; diffIDs: Digest[] }> {
    const bytes = await readWhole(this.#files, image.Config, this.#signal);
    if (!bytes) throw this.invalid(`its config ${image.Config} is missing`);
    const digest = digestOf(bytes);
    const promised = this.#promised(image.Config);
    if (promised && promised !== digest) {
      throw new SvcError(
        "digest_invalid",
        `Cannot read docker archive ${this.#files.label}: its config ${image.Config} has the ` +
          `digest ${digest}`,
      );
    }
    let config: Partial<ImageConfig> | null;
    try {
      config = JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      throw this.invalid(`its config ${image.Config} is not JSON`);
    }
    const diffIDs = config?.rootfs?.diff_ids ?? [];
    if (!Array.isArray(diffIDs) || !diffIDs.every((id) => typeof id === "string" && isDigest(id))) {
      throw this.invalid(`its config ${image.Config} has no layer digests`);
    }
    const layers = image.Layers ?? [];
    if (diffIDs.length !== layers.length) {
      throw this.invalid(
        `its config ${image.Config} names ${diffIDs.length} layers, manifest.json ${layers.length}`,
      );
    }
    this.places.set(digest, { path: image.Config, size: bytes.length });
    return { descriptor: { mediaType: MEDIA.config, digest, size: bytes.length }, diffIDs };
  }

  /** The descriptor of a layer in the archive; a compressed layer is read once for its digest. */
  async layer(path: string, diffID: Digest): Promise<Descriptor> {
    const size = await this.#files.size(path);
    if (size === undefined) throw this.invalid(`its layer ${path} is missing`);
    const end = Math.min(size, MAGIC_LENGTH);
    const head = await Array.fromAsync(this.#files.open(path, 0, end, this.#signal));
    const compression = detectCompression(new Uint8Array(head.flatMap((part) => [...part])));
    const digest = compression === "none" ? diffID : await this.#digestOf(path, size, diffID);
    this.places.set(digest, { path, size });
    return { mediaType: LAYER_TYPES[compression], digest, size };
  }

  async #digestOf(path: string, size: number, diffID: Digest): Promise<Digest> {
    const [packed, plain] = [createDigester(), createDigester()];
    const parts = this.#files.open(path, 0, size, this.#signal);
    const seen = async function* () {
      for await (const part of parts) {
        packed.update(part);
        yield part;
      }
    };
    for await (const part of decompressChunks(seen())) plain.update(part);
    if (plain.digest() === diffID) return packed.digest();
    throw new SvcError(
      "digest_invalid",
      `Cannot read docker archive ${this.#files.label}: its layer ${path} unpacks to ` +
        `${plain.digest()}, its config says ${diffID}`,
    );
  }

  /** Makes a manifest for a saved image. The config's bytes are kept, so the image keeps its id. */
  async make(image: SavedImage): Promise<Digest> {
    const { descriptor, diffIDs } = await this.config(image);
    const layers: Descriptor[] = [];
    for (const [at, path] of (image.Layers ?? []).entries()) {
      layers.push(await this.layer(path, diffIDs[at]));
    }
    const manifest: Manifest = {
      schemaVersion: 2,
      mediaType: MEDIA.manifest,
      config: descriptor,
      layers,
    };
    const bytes = new TextEncoder().encode(JSON.stringify(manifest));
    const digest = digestOf(bytes);
    this.manifests.set(digest, {
      descriptor: { mediaType: MEDIA.manifest, digest, size: bytes.length },
      bytes,
    });
    return digest;
  }

  /** The original manifest of the image, where the archive is a layout too and has all of the image. */
  async original(layout: PackedImages, image: SavedImage): Promise<Digest | undefined> {
    const bytes = await readWhole(this.#files, image.Config, this.#signal);
    const wanted = bytes && digestOf(bytes);
    const look = async (digest: Digest, depth: number): Promise<Digest | undefined> => {
      const found = await layout.resolve("", digest, { signal: this.#signal });
      if (!found || depth > MAX_DEPTH) return undefined;
      const parsed = parseManifest(found.bytes, found.descriptor.mediaType);
      if (parsed.kind === "index") {
        for (const child of parsed.manifests) {
          const inside = await look(child.digest, depth + 1);
          if (inside) return inside;
        }
        return undefined;
      }
      if (parsed.document.config.digest !== wanted) return undefined;
      for (const blob of parsed.blobs) {
        if (await this.#files.size(blobPath(blob.digest)) === undefined) return undefined;
      }
      return digest;
    };
    for (const entry of layout.images) {
      const found = await look(entry.digest, 0);
      if (found) return found;
    }
    return undefined;
  }
}

export interface DockerImages extends PackedImages {
  /** Where in the archive a config or a layer of a manifest that was made here is. */
  pathOf(digest: Digest): string | undefined;
}

/**
 * Opens an archive of `docker save` (or of skopeo, podman, crane). `made`: manifests are made here even where
 * the archive has some, so that the same image gives the same manifest whichever tool saved it. Throws
 * `archive_invalid`, `digest_invalid`.
 */
export async function openDockerArchive(
  files: LayoutFiles,
  options: ReadOptions & { made?: true } = {},
): Promise<DockerImages> {
  const archive = new DockerArchive(files, options.signal);
  const saved = await archive.saved();
  const isLayout = !options.made && await files.size("oci-layout") !== undefined &&
    await files.size("index.json") !== undefined;
  const layout = isLayout ? await openLayout(files, options) : undefined;
  const images: { name?: string; digest: Digest }[] = [];
  for (const image of saved) {
    const digest = layout && await archive.original(layout, image) || await archive.make(image);
    const names = image.RepoTags ?? [];
    if (names.length === 0) images.push({ digest });
    for (const name of names) images.push({ name, digest });
  }
  return {
    label: files.label,
    images,
    pathOf: (digest) => archive.places.get(digest)?.path,
    async resolve(repository, reference, call) {
      const digest = isDigest(reference)
        ? reference
        : images.find(({ name }) => name !== undefined && sameName(name, reference))?.digest;
      if (!digest) return undefined;
      return archive.manifests.get(digest) ?? await layout?.resolve(repository, digest, call);
    },
    async stat(repository, digest, call) {
      const place = archive.places.get(digest);
      return place ? { size: place.size } : await layout?.stat(repository, digest, call);
    },
    async get(repository, digest, call) {
      const place = archive.places.get(digest);
      if (!place) return await layout?.get(repository, digest, call);
      return packedBlob(files, place.path, digest, place.size, call);
    },
    async *tags() {
      for (const name of images.flatMap((image) => image.name ?? []).sort()) yield name;
    },
    async *referrers(repository, digest, call) {
      if (layout) yield* layout.referrers(repository, digest, call);
    },
  };
}
