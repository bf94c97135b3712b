/**
 * Unpacks an image's layers into committed snapshots, one per layer. A snapshot's name is the layer's chain
 * id (OCI image specification, "Layer ChainID"), so that images share their common layers.
 */
import { createHash } from "node:crypto";
import { SvcError } from "../base/errors.ts";
import { Flights } from "../base/flights.ts";
import { removeTree } from "../base/fs.ts";
import type { ResolvedImage } from "../oci/resolver.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import { unpackedTooLarge } from "../oci/unpack_limit.ts";
import { type LayerFile, type Snapshotter, UNPACKING } from "./snapshotter.ts";

/** Name of the snapshot of an image without layers. */
export const EMPTY_SNAPSHOT = "empty";

/** Layers fetched ahead of the one that is being unpacked. */
const AHEAD = 3;

export interface UnpackProgress {
  /** The layer as the manifest has it. */
  layer: Descriptor;
  /** Index among the image's layers, from 0. */
  index: number;
  /** "present": the layer's snapshot existed already. */
  state: "present" | "fetching" | "unpacking" | "done";
}

export interface UnpackOptions {
  onProgress?: (progress: UnpackProgress) => void;
  /** Most bytes, unpacked, of all missing layers together. */
  maxBytes?: number;
  signal?: AbortSignal;
}

/**
 * The chain id after each layer: the first is the diff id, each later one the sha256 of "chain diff".
 * `apart`: separate ids ({@linkcode ResolvedImage.apart}).
 */
export function chainIDs(diffIDs: readonly Digest[], apart = false): Digest[] {
  const chain: Digest[] = [];
  for (const diffID of diffIDs) {
    const below = chain.at(-1) ?? (apart ? "apart" : undefined);
    chain.push(
      below === undefined
        ? diffID
        : `sha256:${createHash("sha256").update(`${below} ${diffID}`).digest("hex")}`,
    );
  }
  return chain;
}

/** Layers being unpacked, by chain id: a second caller waits for the first. */
const running = new WeakMap<Snapshotter, Flights<void, never>>();

/**
 * Unpacks an image and returns the name of its committed snapshot, which is durable then. Layers that have a
 * snapshot are not fetched. Throws `digest_invalid` where a layer does not match the config (none of that
 * layer is kept), `blob_unknown`, `archive_invalid`, `storage_full`, `too_large`, or what the source threw.
 */
export async function unpackImage(
  snapshotter: Snapshotter,
  image: ResolvedImage,
  options: UnpackOptions = {},
): Promise<string> {
  const { layers } = image.manifest;
  const diffIDs = image.config.rootfs?.diff_ids ?? [];
  if (layers.length !== diffIDs.length) {
    throw new SvcError(
      "manifest_invalid",
      `Cannot unpack ${image.name}: it has ${layers.length} layers, but its config names ${diffIDs.length}`,
    );
  }
  options.signal?.throwIfAborted();
  // A layer just unpacked has no child yet, so pruning could remove it.
  using _use = snapshotter.use();
  if (layers.length === 0) {
    await unpackEmpty(snapshotter);
    return EMPTY_SNAPSHOT;
  }
  const chain = chainIDs(diffIDs, image.apart);
  let first = chain.length;
  // The topmost existing snapshot includes all layers below it.
  while (first > 0 && (await snapshotter.stat(chain[first - 1]))?.kind !== "committed") first--;
  for (let i = 0; i < first; i++) {
    options.onProgress?.({ layer: layers[i], index: i, state: "present" });
  }
  const ahead = new Prefetcher(image, snapshotter.scratch, first, options);
  const budget = options.maxBytes === undefined
    ? undefined
    : { limit: options.maxBytes, left: options.maxBytes };
  try {
    for (let i = first; i < layers.length; i++) {
      await shared(snapshotter, chain[i], options.signal, async (signal) => {
        const there = await snapshotter.stat(chain[i]);
        if (there) return;
        await unpackLayer(snapshotter, {
          image,
          index: i,
          name: chain[i],
          parent: chain[i - 1],
          diffID: diffIDs[i],
          budget,
          body: () => ahead.take(i),
          report: (state) => options.onProgress?.({ layer: layers[i], index: i, state }),
          signal,
        });
      });
      await ahead.drop(i);
      options.onProgress?.({ layer: layers[i], index: i, state: "done" });
    }
  } finally {
    await ahead.close();
  }
  if (first < layers.length) await snapshotter.sync();
  await snapshotter.touch(chain.at(-1)!);
  return chain.at(-1)!;
}

async function unpackEmpty(snapshotter: Snapshotter): Promise<void> {
  await shared(snapshotter, EMPTY_SNAPSHOT, undefined, async () => {
    if (await snapshotter.stat(EMPTY_SNAPSHOT)) return;
    const active = await snapshotter.prepare(`${UNPACKING}${crypto.randomUUID()}`);
    await snapshotter.commit(active, EMPTY_SNAPSHOT);
  });
}

/**
 * Runs `work` once for all concurrent callers with the same `key`. A caller that waited for another caller's
 * failed work runs its own: the other one may have left, or read from another source.
 */
async function shared(
  snapshotter: Snapshotter,
  key: string,
  signal: AbortSignal = new AbortController().signal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const all = running.get(snapshotter) ?? new Flights();
  running.set(snapshotter, all);
  for (;;) {
    const flight = all.join(key, work, () => {}, signal);
    try {
      return await flight.result;
    } catch (error) {
      // Waits for the cleanup of the failed work.
      if (!flight.shared()) await flight.ended;
      signal.throwIfAborted();
      if (!flight.joined) throw error;
    }
  }
}

interface LayerWork {
  image: ResolvedImage;
  index: number;
  name: string;
  parent?: string;
  diffID: Digest;
  /** Bytes that the image's layers may still have, unpacked. */
  budget?: { readonly limit: number; left: number };
  body: () => Promise<ReadableStream<Uint8Array> | LayerFile>;
  report: (state: UnpackProgress["state"]) => void;
  signal: AbortSignal;
}

async function unpackLayer(snapshotter: Snapshotter, work: LayerWork): Promise<void> {
  work.report("fetching");
  const body = await work.body();
  work.report("unpacking");
  const active = await snapshotter.prepare(`${UNPACKING}${crypto.randomUUID()}`, work.parent);
  try {
    const { budget, signal } = work;
    const applied = await snapshotter.apply(active, body, { maxBytes: budget?.left, signal });
    if (budget) budget.left -= applied.size;
    if (applied.diffID !== work.diffID) {
      throw new SvcError(
        "digest_invalid",
        `Cannot unpack layer ${work.index + 1} of ${work.image.name}: its content is ` +
          `${applied.diffID}, but the image config says ${work.diffID}`,
        { help: "the image is damaged or its config is wrong: push it again" },
      );
    }
    // A single sync at the end covers all layers.
    await snapshotter.commit(active, work.name, { lazy: true, signal: work.signal });
  } catch (error) {
    await snapshotter.remove(active.id);
    if (work.budget && error instanceof SvcError && error.code === "too_large") {
      const what = `layer ${work.index + 1} of ${work.image.name}`;
      throw unpackedTooLarge(work.budget.limit, what, "the image");
    }
    throw error;
  }
}

type Body = ReadableStream<Uint8Array> | LayerFile;

/**
 * Fetches layers ahead of their turn into temporary files. The layer whose turn it is comes as a stream; a
 * layer that is a local file is read in place.
 */
class Prefetcher {
  #image: ResolvedImage;
  #bodies = new Map<number, Promise<Body>>();
  #files = new Map<number, string>();
  #abort = new AbortController();
  #signal: AbortSignal;
  /** Rejects when the caller leaves or all layers are done. */
  #aborted: Promise<never>;
  #next: number;
  #scratch: string;

  constructor(image: ResolvedImage, scratch: string, first: number, options: UnpackOptions) {
    this.#image = image;
    this.#scratch = scratch;
    this.#next = first;
    this.#signal = options.signal
      ? AbortSignal.any([options.signal, this.#abort.signal])
      : this.#abort.signal;
    this.#aborted = new Promise((_, reject) => {
      const abort = () => reject(this.#signal.reason);
      if (this.#signal.aborted) abort();
      else this.#signal.addEventListener("abort", abort, { once: true });
    });
    this.#aborted.catch(() => {/* every use races it */});
  }

  /** The layer's bytes. Also begins to fetch the layers after it. */
  async take(index: number): Promise<Body> {
    if (!this.#bodies.has(index)) this.#start(index, false);
    this.#next = Math.max(this.#next, index + 1);
    const last = Math.min(index + AHEAD, this.#image.manifest.layers.length - 1);
    for (; this.#next <= last; this.#next++) this.#start(this.#next, true);
    return await this.#bodies.get(index)!;
  }

  /** Releases the layer's temporary file or unread stream. */
  async drop(index: number): Promise<void> {
    const body = this.#bodies.get(index);
    this.#bodies.delete(index);
    if (!body) return;
    const settled = await body.catch(() => undefined);
    // Another caller unpacked the layer, so this stream was not read.
    if (settled instanceof ReadableStream && !settled.locked) settled.cancel().catch(() => {});
    const file = this.#files.get(index);
    if (file !== undefined) await removeTree(file);
    this.#files.delete(index);
  }

  async close(): Promise<void> {
    this.#abort.abort();
    await Promise.all([...this.#bodies.keys()].map((index) => this.drop(index)));
  }

  #start(index: number, spool: boolean): void {
    const body = this.#open(index, spool);
    body.catch(() => {/* thrown to whoever takes it */});
    this.#bodies.set(index, body);
  }

  async #open(index: number, spool: boolean): Promise<Body> {
    const { source, repository, manifest, name } = this.#image;
    const layer = manifest.layers[index];
    const blob = await source.get(repository, layer.digest, { signal: this.#signal });
    if (!blob) {
      throw new SvcError("blob_unknown", `Cannot unpack ${name}: layer ${layer.digest} is missing`);
    }
    if (blob.file) return { ...blob.file, size: blob.size };
    if (!spool) return blob.stream();
    const path = await Deno.makeTempFile({ dir: this.#scratch, prefix: "layer-" });
    this.#files.set(index, path);
    using file = await Deno.open(path, { write: true });
    const copied = blob.stream().pipeTo(file.writable, { signal: this.#signal });
    copied.catch(() => {/* thrown below, or the abort came first */});
    // pipeTo waits for the source to stop; a caller that leaves does not wait.
    await Promise.race([copied, this.#aborted]);
    return { path, offset: 0, size: blob.size };
  }
}
