/**
 * The images of an engine as an image source. Repositories are the engine's own names without their tags
 * ("app", "ghcr.io/org/tool"); whatever else the engine takes as a name finds the image too. Nothing is cached
 * that could be wrong: names are looked up at the engine, and an image that the engine no longer has is missing.
 */
import { isDigest } from "../../oci/digest.ts";
import type { ImageSource, ReadOptions, ResolvedManifest } from "../../oci/image.ts";
import type { Digest } from "../../oci/types.ts";
import type { ImageApi } from "./api.ts";
import type { ExportCache } from "./export_cache.ts";
import type { ExportedImage } from "./exported.ts";

/** Milliseconds for which an image that was there counts as there. */
const ALIVE_MS = 3_000;

export interface EngineReader extends ImageSource {
  /** In byte order. */
  repositories(options?: { signal?: AbortSignal }): AsyncIterable<string>;
}

/** "host:5000/app:v1" → "host:5000/app" and "v1". Undefined: the image has no name there ("<none>:<none>"). */
export function splitName(name: string): { repository: string; tag: string } | undefined {
  const colon = name.lastIndexOf(":");
  if (colon <= name.lastIndexOf("/") || name.startsWith("<none>")) return undefined;
  return { repository: name.slice(0, colon), tag: name.slice(colon + 1) };
}

export class EngineImages implements EngineReader {
  readonly #api: ImageApi;
  readonly #cache: ExportCache;
  readonly #alive = new Map<Digest, number>();

  constructor(api: ImageApi, cache: ExportCache) {
    this.#api = api;
    this.#cache = cache;
  }

  async resolve(
    repository: string,
    reference: string,
    { signal }: ReadOptions = {},
  ): Promise<ResolvedManifest | undefined> {
    if (isDigest(reference)) {
      const id = await this.#owner(reference, signal);
      return id === undefined
        ? undefined
        : manifestOf(await this.#cache.image(id, signal), reference);
    }
    const found = await this.#api.find(`${repository}:${reference}`, signal);
    if (!found) return undefined;
    this.#alive.set(found.id, performance.now());
    const image = await this.#cache.image(found.id, signal);
    return manifestOf(image, image.root);
  }

  async stat(_repository: string, digest: Digest, { signal }: ReadOptions = {}) {
    const id = await this.#owner(digest, signal);
    const known = id === undefined ? undefined : await this.#cache.known(id);
    const place = known?.blobs[digest];
    return place && { size: place.size };
  }

  async get(...[_repository, digest, options = {}]: Parameters<ImageSource["get"]>) {
    const id = await this.#owner(digest, options.signal);
    return id === undefined ? undefined : await this.#cache.read(id, digest, options);
  }

  async *tags(repository: string, { signal, after }: ReadOptions & { after?: string } = {}) {
    const names = (await this.#list(signal)).filter((name) => name.repository === repository);
    for (const tag of inOrder(names.map(({ tag }) => tag))) {
      if (after === undefined || tag > after) yield tag;
    }
  }

  async *referrers() {
    // An engine keeps none.
  }

  async *repositories({ signal }: { signal?: AbortSignal } = {}) {
    yield* inOrder((await this.#list(signal)).map(({ repository }) => repository));
  }

  async #list(signal?: AbortSignal) {
    const images = await this.#api.list(signal);
    const ids = new Set(images.map(({ id }) => id));
    for (const id of [...this.#alive.keys()]) if (!ids.has(id)) this.#alive.delete(id);
    await this.#cache.forget((id) => !ids.has(id));
    return images.flatMap(({ names }) => names.flatMap((name) => splitName(name) ?? []));
  }

  /**
   * An image that the engine has and that has this manifest or blob. It is known by an earlier export, or
   * because the engine keeps manifests and the digest is one's.
   */
  async #owner(digest: Digest, signal?: AbortSignal): Promise<Digest | undefined> {
    for (const id of await this.#cache.owners(digest)) {
      if (await this.#exists(id, signal)) return id;
    }
    const found = await this.#api.find(digest, signal);
    if (found?.id !== digest) return undefined;
    const { manifests, blobs } = await this.#cache.image(digest, signal);
    return digest in manifests || digest in blobs ? digest : undefined;
  }

  async #exists(id: Digest, signal?: AbortSignal): Promise<boolean> {
    if (performance.now() - (this.#alive.get(id) ?? -Infinity) < ALIVE_MS) return true;
    if (await this.#api.find(id, signal)) {
      this.#alive.set(id, performance.now());
      return true;
    }
    this.#alive.delete(id);
    await this.#cache.forget((other) => other === id);
    return false;
  }
}

const inOrder = (names: string[]) => [...new Set(names)].sort();

function manifestOf(image: ExportedImage, digest: Digest): ResolvedManifest | undefined {
  const found = image.manifests[digest];
  if (!found) return undefined;
  const bytes = new TextEncoder().encode(found.text);
  return { descriptor: { mediaType: found.mediaType, digest, size: bytes.length }, bytes };
}
