/**
 * Pushes images to registries: blobs first, then the documents that an index lists, then the named document.
 */
import { SvcError } from "../../base/errors.ts";
import type { ImageSink, ImageSource } from "../../oci/image.ts";
import type { ImageResolver, LoadImage } from "../../oci/resolver.ts";
import type { Digest } from "../../oci/types.ts";
import type { ContentBlob, ImageContent } from "./content.ts";
import { inOrder } from "./lanes.ts";

/** Blobs pushed at the same time: their syncs to disk are waited for together. */
const AT_ONCE = 6;

export interface Target {
  sink: ImageSink;
  repository: string;
  tags: string[];
  /** Takes the whole image in the sink's place. */
  load?: { names: readonly string[]; load: LoadImage };
}

export interface PushOptions {
  onProgress: (label: string, current: number, total?: number) => void;
  signal: AbortSignal;
}

/**
 * The repositories to push to. Tags of one repository are pushed with one manifest. Throws
 * `reference_invalid`.
 */
export function targetsOf(
  images: ImageResolver,
  wanted: readonly string[],
  byDigest = false,
): { targets: Target[]; names: string[] } {
  const targets: Target[] = [];
  const names: string[] = [];
  for (const text of wanted) {
    const { sink, repository, tag, name, load } = images.target(text);
    names.push(byDigest ? name.slice(0, -(tag.length + 1)) : name);
    const tags = byDigest ? [] : [tag];
    const same = targets.find((one) => one.sink === sink && one.repository === repository);
    if (same) {
      same.tags.push(...tags);
      if (load && same.load) same.load = { ...load, names: [...same.load.names, ...load.names] };
    } else {targets.push({
        sink,
        repository,
        tags,
        load: byDigest && load ? { ...load, names: [] } : load,
      });}
  }
  return { targets, names };
}

/** The part of a digest that people compare: its first 12 digits. */
export const short = (digest: Digest): string => digest.slice(digest.indexOf(":") + 1).slice(0, 12);

async function pushBlob(
  { sink, repository }: Target,
  { descriptor, origin, open, file }: ContentBlob,
  { onProgress, signal }: PushOptions,
): Promise<void> {
  const { digest, size } = descriptor;
  if (await sink.hasBlob(repository, digest, { signal })) return;
  const from = origin?.repository;
  if (from !== undefined && await sink.mountBlob?.(repository, digest, from, { signal })) return;
  const label = short(digest);
  onProgress(label, 0, size);
  if (file && await sink.adoptBlob?.(repository, descriptor, await file(signal), { signal })) {
    return onProgress(label, size, size);
  }
  const body = (await open(signal)).pipeThrough(
    counted((bytes) => bytes < size && onProgress(label, bytes, size)),
  );
  await sink.putBlob(repository, descriptor, body, { signal });
  onProgress(label, size, size);
}

/** Bytes between two progress events: more events help nobody. */
const STEP = 1 << 20;

function counted(report: (bytes: number) => void): TransformStream<Uint8Array, Uint8Array> {
  let seen = 0, shown = 0;
  return new TransformStream({
    transform(chunk, controller) {
      seen += chunk.length;
      if (seen - shown >= STEP) report(shown = seen);
      controller.enqueue(chunk);
    },
  });
}

type PushedImage = Pick<ImageContent, "root" | "children" | "blobs"> & Partial<ImageContent>;

/** Hands the image to an engine, which reads what it lacks. Throws `unsupported` for several platforms. */
async function loadImage(
  { root, children, blobs, platforms = [] }: PushedImage,
  { names, load }: NonNullable<Target["load"]>,
  { onProgress, signal }: PushOptions,
): Promise<void> {
  if (platforms.length > 1) {
    throw new SvcError(
      "unsupported",
      "Cannot load the image into the engine: it has several platforms, and engines take one",
      { help: "build for one platform, or start the server with --storage" },
    );
  }
  const documents = new Map([root, ...children].map((one) => [one.descriptor.digest, one]));
  const contents = new Map(blobs.map((one) => [one.descriptor.digest, one]));
  const stat: ImageSource["stat"] = (_repository, digest) =>
    Promise.resolve(contents.get(digest)?.descriptor);
  const source: ImageSource = {
    resolve: (_repository, digest) => Promise.resolve(documents.get(digest)),
    stat,
    async get(_repository, digest, call) {
      const blob = contents.get(digest);
      if (!blob) return undefined;
      const { size } = blob.descriptor;
      const stream = (await blob.open(call?.signal ?? signal)).pipeThrough(
        counted((bytes) => onProgress(short(digest), bytes, size)),
      );
      return { size, stream: () => stream };
    },
    async *tags() {},
    async *referrers() {},
  };
  await load({ source, repository: "", digest: root.descriptor.digest, names }, signal);
}

/** Throws what the sink threw, or `blob_unknown` where a layer of the base image is gone. */
export async function pushImage(
  image: PushedImage,
  target: Target,
  options: PushOptions,
): Promise<void> {
  const { sink, repository, tags, load } = target;
  const { signal } = options;
  const { root, children, blobs } = image;
  if (load) return await loadImage(image, load, options);
  await inOrder(blobs, AT_ONCE, (blob) => pushBlob(target, blob, options));
  for (const { descriptor, bytes } of children) {
    await sink.putManifest(repository, descriptor.mediaType, bytes, [], { signal });
  }
  await sink.putManifest(repository, root.descriptor.mediaType, root.bytes, tags, { signal });
}
