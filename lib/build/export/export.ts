/** Delivers a solved plan: layers packed and pushed, config and manifest made, tags set. */
import { SvcError } from "../../base/errors.ts";
import type { BlobBody, ImageSink } from "../../oci/image.ts";
import { digestOf } from "../../oci/digest.ts";
import type { ImageResolver } from "../../oci/resolver.ts";
import { type Descriptor, type Digest, MEDIA } from "../../oci/types.ts";
import { chainIDs } from "../../snapshot/unpack.ts";
import { type BuildPlan, chain, type Vertex } from "../plan/graph.ts";
import type { Engine, Outcome } from "../solve/engine_context.ts";
import type { LayerBlob } from "../solve/records.ts";
import { imageConfig, imageManifest } from "./image.ts";
import { packLayer } from "./pack.ts";

/** Layers that are packed or pushed at once. */
const AT_ONCE = 2;

export interface ExportRequest {
  plan: BuildPlan;
  outcomes: ReadonlyMap<Vertex, Outcome>;
  images: ImageResolver;
  tags: string[];
  onProgress: (label: string, current: number, total?: number) => void;
  signal: AbortSignal;
}

export interface Exported {
  /** Of the manifest. */
  digest: Digest;
  imageId: Digest;
  names: string[];
  /** Bytes of all layers, compressed. */
  size: number;
}

interface Target {
  sink: ImageSink;
  repository: string;
  tags: string[];
}

/** A layer made here: its blob, and the file that holds it where it was packed just now. */
interface OwnLayer {
  outcome: Outcome;
  blob: LayerBlob;
  file?: string;
}

class Exporter {
  #engine: Engine;
  #request: ExportRequest;
  #folder: string;

  constructor(engine: Engine, request: ExportRequest, folder: string) {
    this.#engine = engine;
    this.#request = request;
    this.#folder = folder;
  }

  async run(): Promise<Exported> {
    const { plan, outcomes, signal } = this.#request;
    const { targets, names } = this.#targets();
    const own = chain(plan.root).filter((vertex) => vertex.kind !== "image");
    const packed = await inOrder(own, (vertex) => this.#pack(outcomes.get(vertex)!));
    const base = plan.base;
    const layers = [...base?.manifest.layers ?? [], ...packed.map(({ blob }) => blob.descriptor)];
    const diffIDs = [
      ...base?.config.rootfs.diff_ids ?? [],
      ...packed.map(({ blob }) => blob.diffID),
    ];
    const config = encode(
      imageConfig(plan, { layers, diffIDs }, (vertex) => outcomes.get(vertex)!.reference),
    );
    const configDescriptor = describe(MEDIA.config, config);
    const manifest = encode(imageManifest(configDescriptor, layers));
    for (const target of targets) {
      const { sink, repository, tags } = target;
      await inOrder(base?.manifest.layers ?? [], (layer) => this.#pushBase(target, layer));
      await inOrder(packed, (layer) => this.#pushOwn(target, layer));
      if (!await sink.hasBlob(repository, configDescriptor.digest, { signal })) {
        await sink.putBlob(repository, configDescriptor, new Blob([config]).stream(), { signal });
      }
      await sink.putManifest(repository, MEDIA.manifest, manifest, tags, { signal });
    }
    await this.#nameChains(packed, diffIDs);
    return {
      digest: digestOf(manifest),
      imageId: configDescriptor.digest,
      names,
      size: layers.reduce((sum, { size }) => sum + size, 0),
    };
  }

  /** Tags of one repository go out with one manifest. */
  #targets(): { targets: Target[]; names: string[] } {
    const targets: Target[] = [];
    const names: string[] = [];
    for (const wanted of this.#request.tags) {
      const { sink, repository, tag, name } = this.#request.images.target(wanted);
      names.push(name);
      const same = targets.find((one) => one.sink === sink && one.repository === repository);
      if (same) same.tags.push(tag);
      else targets.push({ sink, repository, tags: [tag] });
    }
    return { targets, names };
  }

  async #pack(outcome: Outcome): Promise<OwnLayer> {
    const known = outcome.record?.blob;
    return known ? { outcome, blob: known } : await this.#packNow(outcome);
  }

  async #packNow(outcome: Outcome): Promise<OwnLayer> {
    const { signal } = this.#request;
    const file = `${this.#folder}/${crypto.randomUUID()}`;
    const snapshot = outcome.snapshot!;
    const archive = this.#engine.snapshotter.diff(snapshot, { signal });
    const { diffID, digest, size } = await packLayer(archive, file, signal);
    const blob = { descriptor: { mediaType: MEDIA.layerGzip, digest, size }, diffID };
    await this.#engine.records.setBlob(outcome.key, snapshot, blob);
    return { outcome, blob, file };
  }

  async #pushOwn({ sink, repository }: Target, layer: OwnLayer): Promise<void> {
    const { onProgress, signal } = this.#request;
    const { descriptor } = layer.blob;
    if (await sink.hasBlob(repository, descriptor.digest, { signal })) return;
    if (!layer.file) {
      // Known from an earlier build, but not to this sink: the same snapshot packs to the same bytes.
      const again = await this.#packNow(layer.outcome);
      if (again.blob.descriptor.digest !== descriptor.digest) {
        throw new SvcError(
          "internal",
          `Cannot push layer ${descriptor.digest}: packed again it is ${again.blob.descriptor.digest}`,
          { help: "build once more with --no-cache" },
        );
      }
      layer.file = again.file;
    }
    const label = short(descriptor.digest);
    onProgress(label, 0, descriptor.size);
    const file = await Deno.open(layer.file!);
    await sink.putBlob(repository, descriptor, file.readable, { signal });
    onProgress(label, descriptor.size, descriptor.size);
  }

  async #pushBase({ sink, repository }: Target, layer: Descriptor): Promise<void> {
    const { plan, onProgress, signal } = this.#request;
    const base = plan.base!;
    if (await sink.hasBlob(repository, layer.digest, { signal })) return;
    if (await sink.mountBlob?.(repository, layer.digest, base.repository, { signal })) return;
    const body: BlobBody | undefined = await base.source.get(base.repository, layer.digest, {
      signal,
    });
    if (!body) {
      throw new SvcError(
        "blob_unknown",
        `Cannot push layer ${layer.digest}: ${base.name} does not have it any more`,
        { help: "push the base image again" },
      );
    }
    const label = short(layer.digest);
    onProgress(label, 0, layer.size);
    await sink.putBlob(repository, layer, body.stream(), { signal });
    onProgress(label, layer.size, layer.size);
  }

  /** A deploy of the image finds its layers unpacked under the names it looks for. */
  async #nameChains(packed: OwnLayer[], diffIDs: Digest[]): Promise<void> {
    const chains = chainIDs(diffIDs).slice(diffIDs.length - packed.length);
    for (const [index, { outcome }] of packed.entries()) {
      await this.#engine.snapshotter.alias(chains[index], outcome.snapshot!);
    }
  }
}

const short = (digest: Digest) => digest.slice(digest.indexOf(":") + 1).slice(0, 12);

const encode = (document: unknown) => new TextEncoder().encode(JSON.stringify(document));

const describe = (mediaType: string, bytes: Uint8Array): Descriptor => ({
  mediaType,
  digest: digestOf(bytes),
  size: bytes.length,
});

/** A few at once; results in the order of the items. The first failure stops what has not begun. */
async function inOrder<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results = new Array<R>(items.length);
  const next = items.entries();
  let failed = false;
  const lane = async () => {
    for (const [index, item] of next) {
      if (failed) return;
      try {
        results[index] = await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const lanes = await Promise.allSettled(Array.from({ length: AT_ONCE }, lane));
  for (const one of lanes) if (one.status === "rejected") throw one.reason;
  return results;
}

/** Throws what the sink threw, or `blob_unknown` where a layer of the base image is gone. */
export async function exportImage(engine: Engine, request: ExportRequest): Promise<Exported> {
  await using folder = await engine.workspace.temporary();
  return await new Exporter(engine, request, folder.path).run();
}
