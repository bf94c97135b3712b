/** Layers of an image as blobs: those made here packed once for each way of packing, the base's as they are. */
import { SvcError } from "../../base/errors.ts";
import { decompress } from "../../oci/compression.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import { type Descriptor, type Digest, MEDIA } from "../../oci/types.ts";
import { diffLayer } from "../../snapshot/tree_jobs.ts";
import type { Engine, Outcome } from "../solve/engine_context.ts";
import type { LayerBlob } from "../solve/records.ts";
import type { ContentBlob } from "./content.ts";
import { packLayer } from "./pack.ts";
import { type Packing, packingKey } from "./packer_wire.ts";

export interface Layer extends ContentBlob {
  diffID: Digest;
}

export interface LayersOptions {
  /** Folder for packed layers; lives as long as what they are delivered from. */
  folder: string;
  /** Layers that an imported cache has. */
  foreign?: (digest: Digest) => Pick<ContentBlob, "open"> | undefined;
  onProgress: (label: string, current: number, total?: number) => void;
  signal: AbortSignal;
}

const TYPES: Record<Packing["compression"], string> = {
  gzip: MEDIA.layerGzip,
  zstd: MEDIA.layerZstd,
  uncompressed: MEDIA.layerTar,
};

const DOCKER_TAR = "application/vnd.docker.image.rootfs.diff.tar";

const TO_OCI: Record<string, string> = {
  [MEDIA.dockerLayerGzip]: MEDIA.layerGzip,
  [DOCKER_TAR]: MEDIA.layerTar,
};

const TO_DOCKER: Record<string, string> = {
  [MEDIA.layerGzip]: MEDIA.dockerLayerGzip,
  [MEDIA.layerTar]: DOCKER_TAR,
};

/** A layer's media type in an OCI manifest, or in one of docker's. */
export function layerType(mediaType: string, docker: boolean): string {
  return (docker ? TO_DOCKER : TO_OCI)[mediaType] ?? mediaType;
}

export class Layers {
  #engine: Engine;
  #options: LayersOptions;
  /** By snapshot or digest, and packing. */
  #made = new Map<string, Promise<Layer>>();

  constructor(engine: Engine, options: LayersOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /** A step's layer. */
  own(outcome: Outcome, packing: Packing): Promise<Layer> {
    return this.#once(`${outcome.snapshot} ${packingKey(packing)}`, async () => {
      const known = outcome.record?.blobs?.[packingKey(packing)];
      if (!known) return await this.#packed(outcome, packing);
      // Known from an earlier build: packed again only for who does not have it.
      const foreign = this.#options.foreign?.(known.descriptor.digest);
      const open = foreign?.open ?? (() => this.#repacked(outcome, packing, known));
      return { descriptor: known.descriptor, diffID: known.diffID, open };
    });
  }

  /** A layer of the base image; packed anew where `force` asks for another compression. */
  async base(
    image: ResolvedImage,
    index: number,
    packing: Packing,
    force: boolean,
  ): Promise<Layer> {
    const descriptor = image.manifest.layers[index];
    const diffID = image.config.rootfs.diff_ids[index];
    const wanted = TYPES[packing.compression];
    const { source, repository } = image;
    const original: Layer = {
      descriptor,
      diffID,
      origin: { source, repository },
      open: async (signal) => {
        const body = await source.get(repository, descriptor.digest, { signal });
        if (body) return body.stream();
        throw new SvcError(
          "blob_unknown",
          `Cannot push layer ${descriptor.digest}: ${image.name} does not have it any more`,
          { help: "push the base image again" },
        );
      },
    };
    if (!force || layerType(descriptor.mediaType, false) === wanted) return original;
    return await this.#once(`${descriptor.digest} ${packingKey(packing)}`, async () => {
      const archive = ReadableStream.from(
        ownChunks(decompress(await original.open(this.#options.signal))),
      );
      const { file, blob } = await this.#pack(archive, packing);
      if (blob.diffID !== diffID) {
        throw new SvcError(
          "digest_invalid",
          `Cannot repack layer ${descriptor.digest} of ${image.name}: its content is not what the ` +
            "image's config says",
        );
      }
      return { ...blob, open: () => opened(file) };
    });
  }

  /** A whole folder of this machine, as an archive. */
  async folder(path: string, packing: Packing): Promise<ContentBlob> {
    const { signal } = this.#options;
    const archive = diffLayer({ root: path, lower: [], overlay: false }, { signal });
    const { file, blob } = await this.#pack(archive, packing);
    return { descriptor: blob.descriptor, open: () => opened(file) };
  }

  #once(key: string, make: () => Promise<Layer>): Promise<Layer> {
    let made = this.#made.get(key);
    if (!made) this.#made.set(key, made = make());
    return made;
  }

  async #packed(outcome: Outcome, packing: Packing): Promise<Layer> {
    const { signal } = this.#options;
    const snapshot = outcome.snapshot!;
    const archive = this.#engine.snapshotter.diff(snapshot, { signal });
    const { file, blob } = await this.#pack(archive, packing);
    await this.#engine.records.setBlob(outcome.key, snapshot, packingKey(packing), blob);
    return { ...blob, open: () => opened(file) };
  }

  /** The same snapshot packs to the same bytes. */
  async #repacked(outcome: Outcome, packing: Packing, known: LayerBlob) {
    const again = await this.#once(
      `again ${outcome.snapshot} ${packingKey(packing)}`,
      () => this.#packed(outcome, packing),
    );
    if (again.descriptor.digest === known.descriptor.digest) {
      return await again.open(this.#options.signal);
    }
    throw new SvcError(
      "internal",
      `Cannot deliver layer ${known.descriptor.digest}: packed again it is ${again.descriptor.digest}`,
      { help: "build once more with --no-cache" },
    );
  }

  async #pack(
    archive: ReadableStream<Uint8Array>,
    packing: Packing,
  ): Promise<{ file: string; blob: { descriptor: Descriptor; diffID: Digest } }> {
    const { folder, signal } = this.#options;
    const file = `${folder}/${crypto.randomUUID()}`;
    const { diffID, digest, size } = await packLayer(archive, file, packing, signal);
    const descriptor = { mediaType: TYPES[packing.compression], digest, size };
    return { file, blob: { descriptor, diffID } };
  }
}

/** Chunks are given away to a Worker; the decompressor goes on using the memory of its own. */
async function* ownChunks(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) yield new Uint8Array(chunk);
}

/** Fewer and larger reads than a file's own stream makes. */
const READ = 256 * 1024;

async function opened(path: string): Promise<ReadableStream<Uint8Array>> {
  const file = await Deno.open(path);
  return new ReadableStream({
    async pull(controller) {
      const buffer = new Uint8Array(READ);
      const got = await file.read(buffer);
      if (got !== null) return controller.enqueue(buffer.subarray(0, got));
      file.close();
      controller.close();
    },
    cancel: () => file.close(),
  }, { highWaterMark: 1 });
}
