/**
 * Layers of a base image that the result takes with it to the server's own registry: they are stored there
 * while they are fetched to be unpacked, and not fetched again to be pushed. A build that fails leaves
 * blobs that no manifest names, as a push that fails does: garbage collection takes them.
 */
import type { Logger } from "../../base/log.ts";
import type { BlobBody, ImageSink, ImageSource, ReadOptions } from "../../oci/image.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";

/** The own registry, and the repository that the image is pushed to. */
export interface OwnPlace {
  sink: ImageSink;
  source: ImageSource;
  repository: string;
}

export interface KeptImage {
  /** The same image; its layers are stored while they are read. */
  image: ResolvedImage;
  /** What was begun is stored, or will not be. */
  settled(): Promise<void>;
}

/** Undefined where there is nothing to keep: the image comes from there. */
export function keepBase(
  image: ResolvedImage,
  place: OwnPlace,
  { log, signal }: { log: Logger; signal: AbortSignal },
): KeptImage | undefined {
  const { source } = image;
  if (source === place.source || source as unknown === place.sink) return undefined;
  const keeper = new Keeper(image, place, log, signal);
  const kept: ImageSource = {
    resolve: (...words) => source.resolve(...words),
    stat: (...words) => source.stat(...words),
    get: (_repository, digest, read) => keeper.get(digest, read),
    tags: (...words) => source.tags(...words),
    referrers: (...words) => source.referrers(...words),
  };
  return { image: { ...image, source: kept }, settled: () => keeper.settled() };
}

class Keeper {
  #image: ResolvedImage;
  #place: OwnPlace;
  #log: Logger;
  #signal: AbortSignal;
  #first = true;
  #puts: Promise<void>[] = [];

  constructor(image: ResolvedImage, place: OwnPlace, log: Logger, signal: AbortSignal) {
    this.#image = image;
    this.#place = place;
    this.#log = log;
    this.#signal = signal;
  }

  async settled(): Promise<void> {
    await Promise.all(this.#puts);
  }

  /**
   * The first layer is unpacked while it comes. Those after it are asked for ahead of their turn: they are
   * stored first, and unpacked from there.
   */
  async get(digest: Digest, read: ReadOptions = {}): Promise<BlobBody | undefined> {
    const { source, repository, manifest } = this.#image;
    const first = this.#first;
    this.#first = false;
    const there = await this.#own(digest, read);
    if (there) return there;
    const body = await source.get(repository, digest, read);
    const descriptor = manifest.layers.find((layer) => layer.digest === digest);
    if (!body || body.file || !descriptor) return body;
    if (first) return { ...body, stream: () => this.#forked(descriptor, body.stream()) };
    await this.#put(descriptor, body.stream());
    read.signal?.throwIfAborted();
    return await this.#own(digest, read) ?? await source.get(repository, digest, read);
  }

  async #own(digest: Digest, read: ReadOptions): Promise<BlobBody | undefined> {
    const { sink, source, repository } = this.#place;
    // Asked first, for what was told to be there stays there.
    if (!await sink.hasBlob(repository, digest, read)) return undefined;
    return await source.get(repository, digest, read);
  }

  #put(descriptor: Descriptor, body: ReadableStream<Uint8Array>): Promise<void> {
    const put = this.#store(descriptor, body);
    this.#puts.push(put);
    return put;
  }

  /** Does not throw: what could not be stored is pushed later. */
  async #store(descriptor: Descriptor, body: ReadableStream<Uint8Array>): Promise<void> {
    const { sink, repository } = this.#place;
    try {
      await sink.putBlob(repository, descriptor, body, { signal: this.#signal });
    } catch (error) {
      await body.cancel(error).catch(() => {/* it is locked, or broken itself */});
      if (this.#signal.aborted) return;
      this.#log.debug("base layer not stored yet", { digest: descriptor.digest, error });
    }
  }

  /** What is read of it goes to the store too; neither side gets far ahead of the other. */
  #forked(descriptor: Descriptor, body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
    const reader = body.getReader();
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const store = writable.getWriter();
    store.closed.catch(() => {/* whoever unpacks goes on alone */});
    let begun = false;
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        if (!begun) this.#put(descriptor, readable);
        begun = true;
        try {
          const { done, value } = await reader.read();
          if (done) {
            await store.close().catch(() => {/* it was given up */});
            return controller.close();
          }
          await store.write(value).catch(() => {/* it was given up */});
          controller.enqueue(value);
        } catch (error) {
          await store.abort(error);
          throw error;
        }
      },
      cancel: async (reason) => {
        await store.abort(reason);
        await reader.cancel(reason);
      },
    }, { highWaterMark: 0 });
  }
}
