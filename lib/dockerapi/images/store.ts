/** The images of the server's registry, as docker sees them: by id, by names, each on the server's platform. */
import { isAbort } from "../../base/errors.ts";
import { Semaphore } from "../../base/mutex.ts";
import { readImageConfig } from "../../oci/image_config.ts";
import { manifestKind, parseManifest } from "../../oci/manifest.ts";
import { hostPlatform, selectPlatform } from "../../oci/platform.ts";
import { type Digest, type ImageConfig, type Manifest, MEDIA } from "../../oci/types.ts";
import type { RemoteRegistry } from "../../remote/registry.ts";
import { invalid, isCode, notFound } from "../errors.ts";
import { shownName, type StoredName, storedName, UNNAMED } from "./names.ts";

/** What one manifest says; it never changes. */
export interface ImageContent {
  /** Docker's id: the digest of the config. */
  id: Digest;
  /** Digest of what the name names: the manifest, or the index with it. */
  root: Digest;
  /** Digest of the manifest. */
  digest: Digest;
  manifest: Manifest;
  config: ImageConfig;
  /** Bytes of its layers, as they are stored. */
  size: number;
}

export interface StoredImage extends ImageContent {
  /** A repository that has it. */
  repository: string;
  /** All its names, each with the digest that it leads to; those of builds without a name are not among them. */
  names: StoredName[];
  /** Names that are not shown. */
  hidden: StoredName[];
}

/** Requests to the registry at once. */
const JOBS = 8;
const MAX_CONFIG = 8 << 20;
/** Manifests whose content is remembered. */
const MAX_KEPT = 5000;

export const noSuchImage = (name: string) => notFound(`No such image: ${name}`);

export class ImageStore {
  /** `own`: hosts in image names that mean this registry. */
  constructor(readonly registry: RemoteRegistry, readonly own: readonly string[]) {}

  readonly #kept = new Map<Digest, Promise<ImageContent | undefined>>();
  readonly #jobs = new Semaphore(JOBS);

  /** All images, the youngest first. */
  async list(signal: AbortSignal): Promise<StoredImage[]> {
    const names: StoredName[] = [];
    for await (const repository of this.registry.repositories({ signal })) {
      for await (const tag of this.registry.tags(repository, { signal })) {
        names.push({ repository, tag });
      }
    }
    const images = new Map<Digest, StoredImage>();
    const found = await Promise.all(
      names.map((name) => this.#jobs.run(() => this.#named(name, signal), signal)),
    );
    names.forEach((name, at) => {
      const content = found[at];
      if (!content) return;
      const image = images.get(content.id) ??
        { ...content, repository: name.repository, names: [], hidden: [] };
      const whole = { ...name, digest: content.root };
      (name.repository === UNNAMED ? image.hidden : image.names).push(whole);
      images.set(content.id, image);
    });
    return [...images.values()].sort((a, b) => createdOf(b.config) - createdOf(a.config));
  }

  /** By name, by id, or by the beginning of an id. Undefined where there is none. */
  async find(text: string, signal: AbortSignal): Promise<StoredImage | undefined> {
    const id = /^(?:sha256:)?([0-9a-f]{2,64})$/.exec(text)?.[1];
    if (!text.startsWith("sha256:")) {
      const named = await this.byName(text, signal).catch((error) => {
        if (id && isCode(error, "reference_invalid")) return undefined;
        throw error;
      });
      if (named) return named;
    }
    if (!id) return undefined;
    const matching = (await this.list(signal)).filter((image) =>
      image.id.startsWith(`sha256:${id}`) || image.digest === `sha256:${id}`
    );
    if (matching.length > 1) {
      throw invalid(`multiple IDs found with provided prefix: ${id}`);
    }
    return matching[0];
  }

  /** By name alone; `names` is then that name. Throws `reference_invalid`. */
  async byName(text: string, signal: AbortSignal): Promise<StoredImage | undefined> {
    const name = storedName(text, this.own);
    const content = await this.#named(name, signal);
    if (!content) return undefined;
    const whole = { ...name, digest: content.root };
    return { ...content, repository: name.repository, names: [whole], hidden: [] };
  }

  /** With all its names. Throws `not_found` in docker's words. */
  async need(text: string, signal: AbortSignal): Promise<StoredImage> {
    const found = await this.find(text, signal);
    if (!found) throw noSuchImage(asGiven(text));
    const whole = (await this.list(signal)).find(({ id }) => id === found.id);
    return whole ?? found;
  }

  /** True where a name leads to an image. */
  async has(name: StoredName, signal: AbortSignal): Promise<boolean> {
    const reference = name.digest ?? name.tag!;
    return await this.registry.head(name.repository, reference, { signal }) !== undefined;
  }

  async #named(name: StoredName, signal: AbortSignal): Promise<ImageContent | undefined> {
    const { repository } = name;
    const reference = name.digest ?? name.tag!;
    const head = name.digest === undefined
      ? await this.registry.head(repository, reference, { signal })
      : { digest: name.digest };
    if (!head) return undefined;
    if (!head.digest) return await this.#read(repository, reference, signal);
    let content = this.#kept.get(head.digest);
    if (!content) {
      if (this.#kept.size >= MAX_KEPT) this.#kept.clear();
      content = this.#read(repository, head.digest, signal);
      const forget = () => void this.#kept.delete(head.digest!);
      this.#kept.set(head.digest, content);
      content.then((found) => found ?? forget(), forget);
    }
    try {
      return await content;
    } catch (error) {
      // Another caller's end of what both wait for is not this one's.
      if (signal.aborted || !isAbort(error)) throw error;
      return await this.#read(repository, head.digest, signal);
    }
  }

  /** Undefined where there is no such manifest, or it is no image of a platform. */
  async #read(
    repository: string,
    reference: string,
    signal: AbortSignal,
  ): Promise<ImageContent | undefined> {
    const root = await this.registry.resolve(repository, reference, { signal });
    if (!root) return undefined;
    let { descriptor, bytes } = root;
    for (let depth = 0; manifestKind(descriptor.mediaType) === "index" && depth < 4; depth++) {
      const { document } = parseManifest(bytes, descriptor.mediaType);
      const index = document as Parameters<typeof selectPlatform>[0];
      const chosen = selectPlatform(index, hostPlatform()) ??
        index.manifests.find(({ platform }) => platform?.os !== "unknown");
      const part = chosen && await this.registry.resolve(repository, chosen.digest, { signal });
      if (!part) return undefined;
      ({ descriptor, bytes } = part);
    }
    const parsed = parseManifest(bytes, descriptor.mediaType);
    if (parsed.kind !== "image") return undefined;
    const { config: { mediaType, digest, size }, layers } = parsed.document;
    if (mediaType !== MEDIA.config && mediaType !== MEDIA.dockerConfig || size > MAX_CONFIG) {
      return undefined;
    }
    const body = await this.registry.get(repository, digest, { signal });
    if (!body) return undefined;
    const config = readImageConfig(await new Response(body.stream() as BodyInit).text());
    if (!config) return undefined;
    return {
      id: digest,
      root: root.descriptor.digest,
      digest: descriptor.digest,
      manifest: parsed.document,
      config,
      size: layers.reduce((sum, layer) => sum + layer.size, 0),
    };
  }
}

/** Unix seconds; 0 where the config names no time. */
export function createdOf({ created }: ImageConfig): number {
  const time = created === undefined ? 0 : Date.parse(created);
  return Number.isFinite(time) ? Math.floor(time / 1000) : 0;
}

function asGiven(text: string): string {
  const last = text.slice(text.lastIndexOf("/") + 1);
  return /^(sha256:)?[0-9a-f]{12,64}$/.test(text) || /[@:]/.test(last) ? text : `${text}:latest`;
}

/** Names as `RepoTags` has them. */
export const tagsOf = ({ names }: StoredImage): string[] =>
  names.filter(({ tag }) => tag !== undefined).map((name) => shownName(name));

/** Names as `RepoDigests` has them. */
export const digestsOf = ({ names }: StoredImage): string[] => [
  ...new Set(names.map(({ repository, digest }) => shownName({ repository, digest }))),
];
