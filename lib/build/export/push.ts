/**
 * Pushes images to registries: blobs first, then the documents that an index lists, then the named document.
 */
import type { ImageSink } from "../../oci/image.ts";
import type { ImageResolver } from "../../oci/resolver.ts";
import type { Digest } from "../../oci/types.ts";
import type { ContentBlob, ImageContent } from "./content.ts";
import { inOrder } from "./lanes.ts";

/** Blobs pushed at the same time: their syncs to disk are waited for together. */
const AT_ONCE = 6;

export interface Target {
  sink: ImageSink;
  repository: string;
  tags: string[];
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
    const { sink, repository, tag, name } = images.target(text);
    names.push(byDigest ? name.slice(0, -(tag.length + 1)) : name);
    const tags = byDigest ? [] : [tag];
    const same = targets.find((one) => one.sink === sink && one.repository === repository);
    if (same) same.tags.push(...tags);
    else targets.push({ sink, repository, tags });
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

/** Throws what the sink threw, or `blob_unknown` where a layer of the base image is gone. */
export async function pushImage(
  { root, children, blobs }: Pick<ImageContent, "root" | "children" | "blobs">,
  target: Target,
  options: PushOptions,
): Promise<void> {
  const { sink, repository, tags } = target;
  const { signal } = options;
  await inOrder(blobs, AT_ONCE, (blob) => pushBlob(target, blob, options));
  for (const { descriptor, bytes } of children) {
    await sink.putManifest(repository, descriptor.mediaType, bytes, [], { signal });
  }
  await sink.putManifest(repository, root.descriptor.mediaType, root.bytes, tags, { signal });
}
