/**
 * Layers that builds pull, in containerd's content store. They are fetched once, kept by a lease for as long as
 * the build cache keeps them, and found by later builds even if their snapshots are gone.
 */
import { SvcError } from "../../../lib/base/errors.ts";
import type { Logger } from "../../../lib/base/log.ts";
import { KeyedMutex } from "../../../lib/base/mutex.ts";
import type { CacheItem, Shelf } from "../../../lib/build/cache/shelf.ts";
import { Leases } from "../../../lib/containerd/api.ts";
import type { ContainerdClient } from "../../../lib/containerd/client.ts";
import type { ContainerdContent } from "../../../lib/containerd/content.ts";
import type { GarbageCollection } from "../../../lib/containerd/garbage.ts";
import { Content, type ContentInfo } from "../../../lib/containerd/image_api.ts";
import { keptBy, keptLabel } from "../../../lib/containerd/labels.ts";
import { orMissing } from "../../../lib/containerd/writing.ts";
import type { BlobBody, ImageSource } from "../../../lib/oci/image.ts";
import type { ImageResolver } from "../../../lib/oci/resolver.ts";
import type { Digest } from "../../../lib/oci/types.ts";

export interface PulledBlobsOptions {
  client: ContainerdClient;
  content: ContainerdContent;
  /** The owner of the blobs: other owners may keep the same ones. */
  owner: string;
  garbage: GarbageCollection;
  log: Logger;
}

/** Precision of the times of use, in milliseconds: each update costs a write. */
const USED_EVERY_MS = 60_000;

export class PulledBlobs implements Shelf {
  readonly kind = "blobs";
  readonly #options: PulledBlobsOptions;
  readonly #lease: string;
  readonly #label: string;
  /** Each blob is fetched, kept or dropped by one caller at a time. */
  readonly #locks = new KeyedMutex();
  #uses = 0;
  /** Blobs asked for since the oldest running use began. */
  readonly #held = new Set<string>();

  private constructor(options: PulledBlobsOptions) {
    this.#options = options;
    this.#lease = `svc-${options.owner}-blobs`;
    this.#label = keptLabel(options.owner);
  }

  static async open(options: PulledBlobsOptions): Promise<PulledBlobs> {
    const blobs = new PulledBlobs(options);
    try {
      await options.client.call(Leases.create, { id: blobs.#lease }, "Cannot make a lease");
    } catch (error) {
      // The lease exists from an earlier run.
      if (!(error instanceof SvcError) || error.code !== "conflict") throw error;
    }
    return blobs;
  }

  /** The same images; their blobs are read through containerd. */
  through(images: ImageResolver): ImageResolver {
    return {
      ...images.forCaller && {
        forCaller: (caller) => this.through(images.forCaller!(caller)),
      },
      resolve: async (name, options) => {
        const image = await images.resolve(name, options);
        return image.apart ? image : { ...image, source: this.#source(image.source) };
      },
      place: (name) => images.place(name),
      target: (name) => images.target(name),
    };
  }

  pin(): Disposable {
    this.#uses++;
    return {
      [Symbol.dispose]: () => {
        if (--this.#uses === 0) this.#held.clear();
      },
    };
  }

  async items(signal?: AbortSignal): Promise<CacheItem[]> {
    const { client, content, owner, log } = this.#options;
    const items: CacheItem[] = [];
    try {
      const filters = [keptBy(owner)];
      const found = client.stream(Content.list, { filters }, "Cannot list blobs", { signal });
      for await (const { info } of found) {
        for (const { digest, size, labels } of info) {
          const used = Date.parse(labels[this.#label]);
          items.push({ id: digest, size, used, held: this.#held.has(digest) });
        }
      }
      for (const { ref, offset, updatedAt } of await content.ingests()) {
        const digest = ref.slice(-"sha256:".length - 64);
        const used = (updatedAt?.seconds ?? 0) * 1000;
        items.push({ id: ref, size: offset, used, held: this.#held.has(digest) });
      }
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof SvcError)) throw error;
      log.warn("blobs that containerd keeps are not counted", { reason: error.message });
    }
    return items;
  }

  async remove(id: string): Promise<boolean> {
    const { client, content, garbage } = this.#options;
    if (!id.startsWith("sha256:")) return await content.drop(id);
    return await this.#locks.run(id, async () => {
      if (this.#held.has(id)) return false;
      // Without the label the blob is no longer counted. Without the lease containerd drops it, unless an image
      // needs it.
      const labels = { [this.#label]: "" };
      const mask = { paths: [`labels.${this.#label}`] };
      const attempted = `Cannot drop ${id}`;
      const resource = { id, type: "content" as const };
      await orMissing(client.call(Leases.drop, { id: this.#lease, resource }, attempted));
      const info = { digest: id, labels };
      await orMissing(client.call(Content.update, { info, mask }, attempted));
      garbage.collect();
      return true;
    });
  }

  #source(inner: ImageSource): ImageSource {
    return {
      resolve: (...args) => inner.resolve(...args),
      stat: (...args) => inner.stat(...args),
      tags: (...args) => inner.tags(...args),
      referrers: (...args) => inner.referrers(...args),
      get: async (repository, digest, options = {}) => {
        // containerd knows only sha256.
        if (!digest.startsWith("sha256:")) return await inner.get(repository, digest, options);
        const { range, signal } = options;
        const { content } = this.#options;
        const there = range
          ? await content.info(digest, { signal })
          : await this.#fetched(digest, () => inner.get(repository, digest, { signal }), {
            rest: (start) => inner.get(repository, digest, { range: { start }, signal }),
            signal,
          });
        if (!there) return range ? await inner.get(repository, digest, options) : undefined;
        return await content.body({ digest, size: there.size }, { range, signal });
      },
    };
  }

  async #fetched(
    digest: Digest,
    get: () => Promise<BlobBody | undefined>,
    { rest, signal }: {
      rest: (start: number) => Promise<BlobBody | undefined>;
      signal?: AbortSignal;
    },
  ): Promise<{ size: number } | undefined> {
    const { content } = this.#options;
    if (this.#uses > 0) this.#held.add(digest);
    const there = await this.#locks.run(digest, () => this.#kept(digest, signal));
    if (there) return there;
    const body = await get();
    if (!body) return undefined;
    const { size } = body;
    const missing = () =>
      new SvcError("blob_unknown", `Cannot fetch ${digest}: it was removed in the meantime`);
    await content.write({ digest, size }, {
      open: async (offset) => {
        if (offset === 0) return body.stream();
        const more = await rest(offset);
        if (!more) throw missing();
        return more.stream();
      },
      ranges: true,
    }, {
      labels: { [this.#label]: new Date().toISOString() },
      lease: this.#lease,
      signal,
    });
    // A blob that another program wrote lacks our label.
    const kept = await this.#locks.run(digest, () => this.#kept(digest, signal));
    if (!kept) throw missing();
    return kept;
  }

  /** The existing blob, which is kept from now on. */
  async #kept(digest: Digest, signal?: AbortSignal): Promise<ContentInfo | undefined> {
    const { client, content } = this.#options;
    const info = await content.info(digest, { signal });
    if (!info) return undefined;
    const used = Date.parse(info.labels[this.#label] ?? "");
    if (Date.now() - used < USED_EVERY_MS) return info;
    const held = await content.hold(digest, { lease: this.#lease, signal });
    if (!held) return undefined;
    const labels = { [this.#label]: new Date().toISOString() };
    const mask = { paths: [`labels.${this.#label}`] };
    const update = { info: { digest, labels }, mask };
    await client.call(Content.update, update, `Cannot keep ${digest}`, { signal });
    return held;
  }
}
