/** Layers of an image as blobs: own layers packed once per packing, the base image's layers as they are. */
import { SvcError } from "../../base/errors.ts";
import { ifThere } from "../../base/fs.ts";
import { fileStream } from "../../base/file_stream.ts";
import { decompress } from "../../oci/compression.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import { type Descriptor, type Digest, MEDIA } from "../../oci/types.ts";
import { type ArchivePart, blocksOf } from "../../oci/tar_blocks.ts";
import { diffLayer } from "../../snapshot/tree_jobs.ts";
import type { Engine, Outcome } from "../solve/engine_context.ts";
import type { LayerBlob } from "../solve/records.ts";
import type { ContentBlob } from "./content.ts";
import { KnownBlocks } from "./known_blocks.ts";
import { packLayer } from "./pack.ts";
import { type Packing, packingKey } from "./packer_wire.ts";

export interface Layer extends ContentBlob {
  diffID: Digest;
}

/** A layer whose bytes are in a file. */
type PackedBlob = Layer & Required<Pick<Layer, "file">>;

/** The options in which two layers of one snapshot can differ. */
interface LayerForm {
  packing: Packing;
  epoch?: number;
}

const formKey = ({ packing, epoch }: LayerForm): string =>
  epoch === undefined ? packingKey(packing) : `${packingKey(packing)} until ${epoch}`;

export interface LayersOptions {
  /** Folder for packed layers; must exist until the layers are delivered. */
  folder: string;
  /** Finds layers that an imported cache has. */
  foreign?: (digest: Digest) => Pick<ContentBlob, "open"> | undefined;
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

/** The media type of a layer in an OCI manifest, or in docker's. */
export function layerType(mediaType: string, docker: boolean): string {
  return (docker ? TO_DOCKER : TO_OCI)[mediaType] ?? mediaType;
}

export class Layers {
  #engine: Engine;
  #options: LayersOptions;
  /** Layers by snapshot or digest, and packing. */
  #made = new Map<string, Promise<Layer>>();
  /** Layers packed again, because a target lacked a layer that an earlier build had packed. */
  #again = new Map<string, Promise<PackedBlob>>();
  #known = new KnownBlocks();

  constructor(engine: Engine, options: LayersOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /** A step's layer; `epoch`: the latest time in it, in seconds since 1970. */
  own(outcome: Outcome, packing: Packing, epoch?: number): Promise<Layer> {
    const form = { packing, epoch };
    return this.#once(`${outcome.snapshot} ${formKey(form)}`, async () => {
      const known = outcome.record?.blobs?.[formKey(form)];
      if (!known) return await this.#packed(outcome, form);
      // An earlier build packed this layer. It is packed again only for a target that lacks it.
      const foreign = this.#options.foreign?.(known.descriptor.digest);
      const { descriptor, diffID } = known;
      if (foreign) return { descriptor, diffID, open: foreign.open };
      const file = () => this.#repacked(outcome, form, known);
      const open = async (signal: AbortSignal) =>
        await this.#stored(descriptor, signal) ?? await opened(await file());
      return { descriptor, diffID, file, open };
    });
  }

  /** A layer of the base image; packed again where `force` asks for another compression. */
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
      const archive = blocksOf(decompress(await original.open(this.#options.signal)));
      const packed = await this.#pack(archive, packing);
      if (packed.diffID !== diffID) {
        throw new SvcError(
          "digest_invalid",
          `Cannot repack layer ${descriptor.digest} of ${image.name}: its content is not what the ` +
            "image's config says",
        );
      }
      return packed;
    });
  }

  /** A whole folder of this machine as an archive. */
  async folder(path: string, packing: Packing): Promise<ContentBlob> {
    const { signal } = this.#options;
    const archive = diffLayer({ root: path, lower: [], overlay: false }, { signal });
    return await this.#pack(archive, packing);
  }

  #once(key: string, make: () => Promise<Layer>): Promise<Layer> {
    let made = this.#made.get(key);
    if (!made) this.#made.set(key, made = make());
    return made;
  }

  async #packed(outcome: Outcome, form: LayerForm): Promise<PackedBlob> {
    const { signal } = this.#options;
    const { packing, epoch } = form;
    const snapshot = outcome.snapshot!;
    const archive = this.#engine.snapshotter.diff(snapshot, { epoch, signal });
    const packed = await this.#pack(archive, packing);
    const { descriptor, diffID } = packed;
    const blob = { descriptor, diffID };
    await this.#engine.records.setBlob(outcome.key, snapshot, formKey(form), blob);
    return packed;
  }

  /** The layer from the image store, where an earlier build put it. */
  async #stored(
    descriptor: Descriptor,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array> | undefined> {
    const body = await this.#engine.imageStore?.find(descriptor, signal);
    if (!body?.file) return body?.stream();
    // The blob may have been removed just now.
    return await ifThere(opened(body.file.path));
  }

  /** Packs a layer again; the same snapshot must give the same bytes. */
  async #repacked(outcome: Outcome, form: LayerForm, known: LayerBlob): Promise<string> {
    const key = `${outcome.snapshot} ${formKey(form)}`;
    let packed = this.#again.get(key);
    if (!packed) this.#again.set(key, packed = this.#packed(outcome, form));
    const again = await packed;
    if (again.descriptor.digest === known.descriptor.digest) {
      return await again.file(this.#options.signal);
    }
    throw new SvcError(
      "internal",
      `Cannot deliver layer ${known.descriptor.digest}: packed again it is ${again.descriptor.digest}`,
      { help: "build once more with --no-cache" },
    );
  }

  async #pack(archive: AsyncIterable<ArchivePart>, packing: Packing): Promise<PackedBlob> {
    const { folder, signal } = this.#options;
    const path = `${folder}/${crypto.randomUUID()}`;
    const known = this.#known;
    const { diffID, digest, size } = await packLayer(archive, path, packing, { known, signal });
    return {
      descriptor: { mediaType: TYPES[packing.compression], digest, size },
      diffID,
      file: () => Promise.resolve(path),
      open: () => opened(path),
    };
  }
}

// Our own: a packed layer.
const opened = async (path: string) => fileStream(await Deno.open(path));
