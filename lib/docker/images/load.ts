/**
 * Puts an image into an engine, without a registry in between. The archive is docker's and an OCI layout at once,
 * so that every store takes it and one that keeps manifests keeps this one. Layers that the engine has are left
 * out of it, where the store allows that.
 */
import { SvcError } from "../../base/errors.ts";
import { decompress, decompressChunks } from "../../oci/compression.ts";
import { familiarName } from "../../oci/archive_docker.ts";
import type { ImageToLoad } from "../../oci/resolver.ts";
import { blobPath, IMAGE_NAME, LAYOUT_VERSION, REF_NAME } from "../../oci/layout.ts";
import { parseManifest } from "../../oci/manifest.ts";
import { selectPlatform } from "../../oci/platform.ts";
import { writeTar } from "../../oci/tar_write.ts";
import { type Descriptor, type Digest, type ImageConfig, type Manifest } from "../../oci/types.ts";
import type { ImageApi } from "./api.ts";

interface Content {
  descriptor: Descriptor;
  bytes: Uint8Array;
  manifest: Manifest;
  config: Uint8Array;
  diffIDs: readonly Digest[];
}

/** Most levels of indexes within indexes. */
const MAX_DEPTH = 4;
/** Images asked for their layers at once. */
const AT_ONCE = 8;

export class ImageLoader {
  readonly #api: ImageApi;
  /** By image id: they never change. */
  readonly #layers = new Map<Digest, readonly Digest[]>();

  constructor(api: ImageApi) {
    this.#api = api;
  }

  /**
   * Idempotent: an image that the engine has only gets the names that it lacks. Of an index, the image for the
   * engine's platform is taken. The engine completes the names.
   */
  async load(image: ImageToLoad, signal?: AbortSignal): Promise<void> {
    const content = await this.#content(image, signal);
    if (await this.#there(content, image.names, signal)) return;
    const keeps = await this.#api.keepsManifests(signal);
    const shared = keeps ? 0 : await this.#shared(content.diffIDs, signal);
    const unzstd = !keeps && !await this.#api.takesZstd();
    try {
      await this.#api.load(archive(image, content, { shared, unzstd }, signal), signal);
    } catch (error) {
      // Somebody may have removed the image that had the layers.
      if (shared === 0 || signal?.aborted) throw error;
      this.#layers.clear();
      await this.#api.load(archive(image, content, { shared: 0, unzstd }, signal), signal);
    }
  }

  async #there(
    { descriptor, manifest }: Content,
    names: readonly string[],
    signal?: AbortSignal,
  ): Promise<boolean> {
    for (const digest of [manifest.config.digest, descriptor.digest]) {
      const found = await this.#api.find(digest, signal);
      if (found?.id !== digest) continue;
      for (const name of names) {
        const named = await this.#api.find(name, signal);
        if (named?.id !== digest) await this.#api.tag(digest, name, signal);
      }
      return true;
    }
    return false;
  }

  /** How many of the lowest layers some image of the engine has. */
  async #shared(diffIDs: readonly Digest[], signal?: AbortSignal): Promise<number> {
    const ids = (await this.#api.list(signal)).map(({ id }) => id);
    const unknown = ids.filter((id) => !this.#layers.has(id));
    const next = async () => {
      for (let id = unknown.pop(); id !== undefined; id = unknown.pop()) {
        const found = await this.#api.find(id, signal);
        if (found) this.#layers.set(id, found.diffIDs);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, next));
    let most = 0;
    for (const id of ids) {
      const layers = this.#layers.get(id) ?? [];
      const end = diffIDs.findIndex((layer, at) => layer !== layers[at]);
      most = Math.max(most, end < 0 ? diffIDs.length : end);
    }
    return most;
  }

  async #content(
    { source, repository, digest }: ImageToLoad,
    signal?: AbortSignal,
  ): Promise<Content> {
    const cannot = (why: string) =>
      new SvcError("manifest_unknown", `Cannot load ${repository}@${digest}: ${why}`);
    for (let at = digest, depth = 0; depth < MAX_DEPTH; depth++) {
      const found = await source.resolve(repository, at, { signal });
      if (!found) throw cannot(`${at} is missing`);
      const parsed = parseManifest(found.bytes, found.descriptor.mediaType);
      if (parsed.kind === "index") {
        const platform = await this.#api.platform();
        const entry = selectPlatform(parsed, platform);
        if (!entry) throw cannot(`it has no image for ${platform.os}/${platform.architecture}`);
        at = entry.digest;
        continue;
      }
      const manifest = parsed.document;
      const body = await source.get(repository, manifest.config.digest, { signal });
      if (!body) throw cannot("its config is missing");
      const config = await new Response(
        body.stream() as ReadableStream<Uint8Array<ArrayBuffer>>,
      ).bytes();
      const { descriptor, bytes } = found;
      return { descriptor, bytes, manifest, config, diffIDs: diffIDsOf(config) };
    }
    throw cannot("its indexes are nested too deeply");
  }
}

/** None for what is no image's config: the engine says what it thinks of it. */
function diffIDsOf(config: Uint8Array): readonly Digest[] {
  try {
    const { rootfs } = JSON.parse(new TextDecoder().decode(config)) as Partial<ImageConfig>;
    return Array.isArray(rootfs?.diff_ids) ? rootfs.diff_ids : [];
  } catch {
    return [];
  }
}

/** Without the `shared` lowest layers. `unzstd`: layers that are packed with zstd are unpacked. */
function archive(
  { source, repository, names }: ImageToLoad,
  { descriptor, bytes, manifest, config }: Content,
  { shared, unzstd }: { shared: number; unzstd: boolean },
  signal?: AbortSignal,
): ReadableStream<Uint8Array> {
  const json = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const complete = names.map(familiarName);
  const entries = complete.map((name): Descriptor => ({
    ...descriptor,
    annotations: { [IMAGE_NAME]: name, [REF_NAME]: name.slice(name.lastIndexOf(":") + 1) },
  }));
  const { config: { digest: configDigest }, layers } = manifest;
  const upper = new Set(layers.slice(shared).map(({ digest }) => digest));
  const files = async function* () {
    const file = (path: string, body: Uint8Array) => ({ path, type: "file" as const, body });
    yield file("oci-layout", new TextEncoder().encode(LAYOUT_VERSION));
    const manifests = entries.length > 0 ? entries : [descriptor];
    yield file("index.json", json({ schemaVersion: 2, manifests }));
    yield file(
      "manifest.json",
      json([{
        Config: blobPath(configDigest),
        RepoTags: complete,
        Layers: layers.map(({ digest }) => blobPath(digest)),
      }]),
    );
    yield file(blobPath(descriptor.digest), bytes);
    yield file(blobPath(configDigest), config);
    const open = async (digest: Digest) => {
      const body = await source.get(repository, digest, { signal });
      if (body) return body.stream();
      throw new SvcError("blob_unknown", `Cannot load ${repository}: ${digest} is missing`);
    };
    for (const { digest, size, mediaType } of layers) {
      if (!upper.delete(digest)) continue;
      const path = blobPath(digest);
      if (unzstd && mediaType.endsWith("zstd")) {
        // An archive says the size first: read twice, for the few images and daemons that meet so.
        const size = await unpackedSize(await open(digest));
        yield { path, type: "file" as const, size, body: decompress(await open(digest)) };
      } else yield { path, type: "file" as const, size, body: await open(digest) };
    }
  };
  return writeTar(files());
}

async function unpackedSize(layer: ReadableStream<Uint8Array>): Promise<number> {
  let size = 0;
  for await (const chunk of decompressChunks(layer)) size += chunk.length;
  return size;
}
