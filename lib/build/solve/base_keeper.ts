/**
 * Stores a base image's layers in the server's own registry while they are fetched to be unpacked, where the
 * result is pushed there: they need not be fetched again for the push. A failed build leaves blobs without a
 * manifest, as a failed push does; garbage collection removes them.
 */
import type { Logger } from "../../base/log.ts";
import type { BlobBody, ImageSink, ImageSource, ReadOptions } from "../../oci/image.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";

/** The server's own registry, and the repository that the image is pushed to. */
export interface OwnPlace {
  sink: ImageSink;
  source: ImageSource;
  repository: string;
}

export interface KeptImage {
  /** The same image, with a source that stores layers while they are read. */
  image: ResolvedImage;
  /** Resolves when every begun layer is stored or has failed. */
  settled(): Promise<void>;
}

/** Undefined where the image already comes from the server's own registry. */
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
   * The first layer is stored while it is unpacked. Later layers are requested ahead of their turn, so they
   * are stored first and unpacked from the registry.
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
    // The sink is asked first: it keeps a blob that it has reported as present.
    if (!await sink.hasBlob(repository, digest, read)) return undefined;
    return await source.get(repository, digest, read);
  }

  #put(descriptor: Descriptor, body: ReadableStream<Uint8Array>): Promise<void> {
    const put = this.#store(descriptor, body);
    this.#puts.push(put);
    return put;
  }

  /** Does not throw: a layer that could not be stored is pushed later. */
  async #store(descriptor: Descriptor, body: ReadableStream<Uint8Array>): Promise<void> {
    const { sink, repository } = this.#place;
    try {
      await sink.putBlob(repository, descriptor, body, { signal: this.#signal });
    } catch (error) {
      await body.cancel(error).catch(() => {/* the stream is locked or broken */});
      if (this.#signal.aborted) return;
      this.#log.debug("a base layer is not stored yet", { digest: descriptor.digest, error });
    }
  }

  /** Gives the bytes to the reader and to the store; neither gets far ahead of the other. */
  #forked(descriptor: Descriptor, body: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
    const reader = body.getReader();
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const store = writable.getWriter();
    store.closed.catch(() => {/* the reader goes on without the store */});
    let begun = false;
    return new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        if (!begun) this.#put(descriptor, readable);
        begun = true;
        try {
          const { done, value } = await reader.read();
          if (done) {
            await store.close().catch(() => {/* storing has failed */});
            return controller.close();
          }
          await store.write(value).catch(() => {/* storing has failed */});
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
