/** Images in containerd's own store, where `ctr` and other clients of containerd find them. */
import type { BlobBody, ImageSink, ReadOptions } from "../oci/image.ts";
import { digestOf } from "../oci/digest.ts";
import type { Descriptor, Digest, Index, Manifest } from "../oci/types.ts";
import { SvcError } from "../base/errors.ts";
import { Leases } from "./api.ts";
import type { ContainerdClient } from "./client.ts";
import type { ContainerdContent } from "./content.ts";
import type { GarbageCollection } from "./garbage.ts";
import { Content, Images } from "./image_api.ts";
import { GC_EXPIRE, gcReference, ownedBy, ownerLabels } from "./labels.ts";

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
    const { client, content } = this.#options;
    const target = { mediaType, digest: digestOf(bytes), size: bytes.length };
    const labels = referencesOf(bytes);
    await content.write(target, {
      open: (offset) => Promise.resolve(new Blob([Uint8Array.from(bytes)]).slice(offset).stream()),
      ranges: true,
    }, { labels, lease: this.#lease, signal });
    // An existing manifest may lack the labels, so they are set in any case.
    const paths = Object.keys(labels).map((key) => `labels.${key}`);
    await client.call(
      Content.update,
      { info: { digest: target.digest, labels }, mask: { paths } },
      `Cannot store manifest ${target.digest}`,
      { signal },
    );
    for (const name of tags) await this.#name(name, target, signal);
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

  async #name(name: string, target: Descriptor, signal?: AbortSignal): Promise<void> {
    const { client, owner } = this.#options;
    const image = { name, labels: ownerLabels(owner), target };
    const attempted = `Cannot name image ${name} in containerd`;
    try {
      await client.call(Images.create, { image }, attempted, { signal });
    } catch (error) {
      if (!(error instanceof SvcError) || error.code !== "conflict") throw error;
      await client.call(Images.update, { image }, attempted, { signal });
    }
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
    const expire = new Date(Date.now() + LEASE_MS).toISOString();
    const labels = { ...ownerLabels(owner), [GC_EXPIRE]: expire };
    await client.call(Leases.create, { id, labels }, "Cannot make a lease");
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
