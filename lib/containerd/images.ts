/** Images in containerd's own store, where `ctr` and other clients of containerd find them. */
import type { BlobBody, ImageSink, ReadOptions } from "../oci/image.ts";
import { digestOf } from "../oci/digest.ts";
import type { Descriptor, Digest, Index, Manifest } from "../oci/types.ts";
import { SvcError } from "../base/errors.ts";
import { KeyedMutex } from "../base/mutex.ts";
import { Leases } from "./api.ts";
import type { ContainerdClient } from "./client.ts";
import type { ContainerdContent } from "./content.ts";
import type { GarbageCollection } from "./garbage.ts";
import { Content, type ImageMessage, Images } from "./image_api.ts";
import { GC_EXPIRE, gcReference, ownedBy, ownerLabels, REGISTRY_OWNER } from "./labels.ts";
import { isCode, orMissing } from "./writing.ts";

/** Lifetime of a lease in milliseconds, should the server not end it. */
const LEASE_MS = 24 * 60 * 60 * 1000;

export interface ContainerdImagesOptions {
  client: ContainerdClient;
  content: ContainerdContent;
  /** Marks this server's leases and images. */
  owner: string;
  garbage: GarbageCollection;
}

/**
 * Labels that keep a manifest's parts as long as the manifest exists; the names are those of containerd's own
 * tools.
 */
function referencesOf(bytes: Uint8Array): Record<string, string> {
  const document = JSON.parse(new TextDecoder().decode(bytes)) as Partial<Manifest & Index>;
  const labels: Record<string, string> = {};
  if (document.config) labels[gcReference("config")] = document.config.digest;
  document.layers?.forEach(({ digest }, index) => labels[gcReference(`l.${index}`)] = digest);
  document.manifests?.forEach(({ digest }, index) => labels[gcReference(`m.${index}`)] = digest);
  return labels;
}

/** Makes a lease that ends by itself after {@linkcode LEASE_MS}. */
export async function makeLease(
  client: ContainerdClient,
  id: string,
  marks: Record<string, string>,
): Promise<void> {
  const labels = { ...marks, [GC_EXPIRE]: new Date(Date.now() + LEASE_MS).toISOString() };
  await client.call(Leases.create, { id, labels }, "Cannot make a lease");
}

interface Stores {
  client: ContainerdClient;
  content: ContainerdContent;
}

/** Stores a manifest with the labels that keep its parts. */
export async function storeManifest(
  { client, content }: Stores,
  { digest, size }: Pick<Descriptor, "digest" | "size">,
  bytes: Uint8Array,
  options: { lease: string; signal?: AbortSignal },
): Promise<void> {
  const labels = referencesOf(bytes);
  await content.write({ digest, size }, {
    open: (offset) => Promise.resolve(new Blob([Uint8Array.from(bytes)]).slice(offset).stream()),
    ranges: true,
  }, { labels, ...options });
  // An existing manifest may lack the labels, so they are set in any case.
  const paths = Object.keys(labels).map((key) => `labels.${key}`);
  await client.call(
    Content.update,
    { info: { digest, labels }, mask: { paths } },
    `Cannot store manifest ${digest}`,
    { signal: options.signal },
  );
}

/** Names that are being given: no two callers of this process look at one and change it at once. */
const naming = new KeyedMutex();

/**
 * Has a name lead to an image, whatever it led to before. An existing name keeps its other labels. `unless`: a name
 * with this label is left alone.
 */
export async function nameImage(
  client: ContainerdClient,
  image: ImageMessage,
  { unless, signal }: { unless?: string; signal?: AbortSignal } = {},
): Promise<void> {
  const { name } = image;
  const attempted = `Cannot name image ${name} in containerd`;
  const paths = ["target", ...Object.keys(image.labels).map((key) => `labels.${key}`)];
  const named = async () => {
    try {
      return await client.call(Images.create, { image }, attempted, { signal });
    } catch (error) {
      if (!isCode(error, "conflict")) throw error;
    }
    const there = await orMissing(client.call(Images.get, { name }, attempted, { signal }));
    if (unless !== undefined && there?.image.labels[unless]) return there;
    // Missing: somebody has removed the name meanwhile.
    return await orMissing(
      client.call(Images.update, { image, mask: { paths } }, attempted, { signal }),
    );
  };
  await naming.run(name, async () => {
    while (!await named()) { /* once more */ }
  });
}

/**
 * A sink for one image. What was put stays until the sink is disposed of; afterwards only what an image's
 * name leads to.
 */
class Sink implements ImageSink, AsyncDisposable {
  readonly #options: ContainerdImagesOptions;
  readonly #lease: string;

  constructor(options: ContainerdImagesOptions, lease: string) {
    this.#options = options;
    this.#lease = lease;
  }

  async hasBlob(_repository: string, digest: Digest, { signal }: ReadOptions = {}) {
    const lease = this.#lease;
    return await this.#options.content.hold(digest, { lease, signal }) !== undefined;
  }

  async putBlob(
    _repository: string,
    descriptor: Pick<Descriptor, "digest" | "size">,
    body: ReadableStream<Uint8Array>,
    { signal }: ReadOptions = {},
  ): Promise<void> {
    let read = false;
    const open = () => {
      read = true;
      return Promise.resolve(body);
    };
    const options = { lease: this.#lease, signal };
    try {
      await this.#options.content.write(descriptor, { open, ranges: false }, options);
    } finally {
      if (!read) await body.cancel();
    }
  }

  /** `tags`: complete names. */
  async putManifest(
    _repository: string,
    mediaType: string,
    bytes: Uint8Array,
    tags: string[],
    { signal }: ReadOptions = {},
  ): Promise<Descriptor> {
    const { client, owner } = this.#options;
    const target = { mediaType, digest: digestOf(bytes), size: bytes.length };
    await storeManifest(this.#options, target, bytes, { lease: this.#lease, signal });
    const labels = ownerLabels(owner);
    for (const name of tags) {
      // What was pushed to the registry changes by pushes alone: their callers may do that.
      await nameImage(client, { name, labels, target }, { unless: REGISTRY_OWNER, signal });
    }
    return target;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { client, garbage } = this.#options;
    try {
      await client.call(Leases.delete, { id: this.#lease }, "Cannot end a lease");
    } catch (error) {
      // The lease expires by itself, or is removed when a server next opens this worker.
      if (!(error instanceof SvcError)) throw error;
    }
    // The images that the names led to before may be garbage now.
    garbage.collect();
  }
}

export class ContainerdImages {
  readonly #options: ContainerdImagesOptions;

  constructor(options: ContainerdImagesOptions) {
    this.#options = options;
  }

  /** Opens a sink for one image. Existing names then lead to the new image. */
  async open(): Promise<ImageSink & AsyncDisposable> {
    const { client, owner } = this.#options;
    const id = `svc-${owner}-image-${crypto.randomUUID()}`;
    await makeLease(client, id, ownerLabels(owner));
    return new Sink(this.#options, id);
  }

  /** An existing blob; it may disappear when nothing refers to it. */
  async find(
    { digest }: Pick<Descriptor, "digest">,
    signal?: AbortSignal,
  ): Promise<BlobBody | undefined> {
    const { content } = this.#options;
    const info = await content.info(digest, { signal });
    return info && await content.body({ digest, size: info.size }, { signal });
  }

  /** Ends the leases that a crash left. Only safe while no image is put. */
  async recover(): Promise<void> {
    const { client, owner } = this.#options;
    const filters = [ownedBy(owner)];
    const { leases } = await client.call(Leases.list, { filters }, "Cannot list leases");
    for (const { id } of leases) {
      await client.call(Leases.delete, { id }, "Cannot end a lease");
    }
  }
}
