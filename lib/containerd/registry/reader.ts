/** containerd's images as an image source. Repositories are names of containerd without tags ("docker.io/library/app"). */
import { isDigest, parseDigest } from "../../oci/digest.ts";
import type { ImageSource, ReadOptions } from "../../oci/image.ts";
import { isTag } from "../../oci/reference.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";
import type { ContainerdClient } from "../client.ts";
import type { ContainerdContent } from "../content.ts";
import { type ImageMessage, Images } from "../image_api.ts";
import { isBuilt, NOT_BUILT, SUBJECT } from "../labels.ts";
import { orMissing } from "../writing.ts";
import type { StoredManifests, Target } from "./manifests.ts";
import { inRepository, placeOf } from "./names.ts";

export interface ImageReaderOptions {
  client: ContainerdClient;
  content: ContainerdContent;
  manifests: StoredManifests;
}

/** containerd keeps sha256 alone. */
const keeps = (digest: Digest) => parseDigest(digest).algorithm === "sha256";

export class ImageReader implements ImageSource {
  readonly #options: ImageReaderOptions;

  constructor(options: ImageReaderOptions) {
    this.#options = options;
  }

  /** Without those that builds left: who may build may neither push nor say what a name means. */
  async list(filter?: string, signal?: AbortSignal): Promise<ImageMessage[]> {
    const { client } = this.#options;
    // containerd leaves them out, too: whatever number of them there is, its answer keeps below its limit.
    const filters = NOT_BUILT.map((one) => filter === undefined ? one : `${filter},${one}`);
    const attempted = "Cannot list containerd's images";
    const { images } = await client.call(Images.list, { filters }, attempted, { signal });
    return images.filter(({ labels }) => !isBuilt(labels));
  }

  /** The images of a repository. */
  async under(repository: string, signal?: AbortSignal): Promise<ImageMessage[]> {
    const images = await this.list(inRepository(repository), signal);
    return images.filter(({ name }) => placeOf(name)?.repository === repository);
  }

  async image(name: string, signal?: AbortSignal): Promise<ImageMessage | undefined> {
    const { client } = this.#options;
    const call = client.call(Images.get, { name }, `Cannot look for image ${name}`, { signal });
    const found = (await orMissing(call))?.image;
    return found && !isBuilt(found.labels) ? found : undefined;
  }

  async resolve(repository: string, reference: string, { signal }: ReadOptions = {}) {
    const { manifests } = this.#options;
    if (isTag(reference)) {
      const found = await this.image(`${repository}:${reference}`, signal);
      return found && await manifests.resolved(found.target, signal);
    }
    if (!isDigest(reference) || !keeps(reference)) return undefined;
    const target = await this.#find(repository, reference, signal);
    return target && await manifests.resolved(target, signal);
  }

  async stat(_repository: string, digest: Digest, { signal }: ReadOptions = {}) {
    const info = keeps(digest) && await this.#options.content.info(digest, { signal });
    return info ? { size: info.size } : undefined;
  }

  async get(...[_repository, digest, options = {}]: Parameters<ImageSource["get"]>) {
    const { content } = this.#options;
    const { signal } = options;
    const info = keeps(digest) ? await content.info(digest, { signal }) : undefined;
    return info && await content.body({ digest, size: info.size }, options);
  }

  async *tags(repository: string, { signal, after }: ReadOptions & { after?: string } = {}) {
    const places = (await this.under(repository, signal)).map(({ name }) => placeOf(name)!);
    const tags = places.flatMap(({ tag, digest }) => digest === undefined && tag || []).sort();
    for (const tag of tags) if (after === undefined || tag > after) yield tag;
  }

  async *referrers(
    repository: string,
    digest: Digest,
    { signal }: ReadOptions = {},
  ): AsyncGenerator<Descriptor> {
    for (const { name, labels, target } of await this.under(repository, signal)) {
      if (labels[SUBJECT] !== digest || placeOf(name)?.digest === undefined) continue;
      const found = await this.#options.manifests.parsed(target, signal);
      if (!found) continue;
      const { mediaType, artifactType, annotations } = found.manifest;
      const { length: size } = found.bytes;
      yield { mediaType, digest: target.digest, size, artifactType, annotations };
    }
  }

  async *repositories({ signal }: { signal?: AbortSignal } = {}) {
    yield* repositoriesOf(await this.list(undefined, signal));
  }

  /** A name of the repository leads to the manifest, by itself or by an index. */
  async #find(
    repository: string,
    digest: Digest,
    signal?: AbortSignal,
  ): Promise<Target | undefined> {
    const targets = (await this.under(repository, signal)).map(({ target }) => target);
    const direct = targets.find((target) => target.digest === digest);
    if (direct) return direct;
    for await (const { manifest } of this.#options.manifests.indexes(targets, signal)) {
      const child = manifest.manifests.find((child) => child.digest === digest);
      if (child) return child;
    }
    return undefined;
  }
}

/** In byte order. */
export function repositoriesOf(images: readonly ImageMessage[]): string[] {
  return [...new Set(images.flatMap(({ name }) => placeOf(name)?.repository ?? []))].sort();
}
