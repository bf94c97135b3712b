/**
 * From an image's layers to committed snapshots, one per layer, named by chain id (OCI image
 * specification, "Layer ChainID"), so that images share what they have in common.
 */
import { createHash } from "node:crypto";
import { SvcError } from "../base/errors.ts";
import { removeTree } from "../base/fs.ts";
import type { ResolvedImage } from "../oci/resolver.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import { unpackedTooLarge } from "../oci/unpack_limit.ts";
import type { Snapshotter } from "./snapshotter.ts";
import type { LayerFile } from "./tree_jobs.ts";

/** The committed snapshot of an image that has no layers. */
export const EMPTY_SNAPSHOT = "empty";

/** Layers fetched ahead of the one that is being unpacked. */
const AHEAD = 3;

export interface UnpackProgress {
  /** The layer as the manifest has it. */
  layer: Descriptor;
  /** Place among the image's layers, from 0. */
  index: number;
  /** "present": a snapshot of it was there. */
  state: "present" | "fetching" | "unpacking" | "done";
}

export interface UnpackOptions {
  onProgress?: (progress: UnpackProgress) => void;
  /** Bytes that its layers may have unpacked, all of them that are not there together. */
  maxBytes?: number;
  signal?: AbortSignal;
}

/**
 * The chain id after each layer: the first is the diff id, then sha256 of "chain diff". `apart`: ids of their own
 * ({@linkcode ResolvedImage.apart}).
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

/** Unpacking under way, by snapshotter and chain id: whoever comes second waits for the first. */
const running = new WeakMap<Snapshotter, Map<string, Shared>>();

interface Shared {
  result: Promise<void>;
  users: number;
  abort: AbortController;
}

/**
 * Unpacks an image and returns the name of its committed snapshot, durable when this resolves. Layers that
 * are there are not fetched. Throws `digest_invalid` where a layer is not what the config says (nothing of
 * it is kept), `blob_unknown`, `archive_invalid`, `storage_full`, `too_large`, or what the source threw.
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
  // A layer that was just unpacked has no child yet.
  using _use = snapshotter.use();
  if (layers.length === 0) {
    await unpackEmpty(snapshotter);
    return EMPTY_SNAPSHOT;
  }
  const chain = chainIDs(diffIDs, image.apart);
  let first = chain.length;
  // The deepest chain that is there makes all below it needless.
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
    const active = await snapshotter.prepare(`unpack-${crypto.randomUUID()}`);
    await snapshotter.commit(active, EMPTY_SNAPSHOT);
  });
}

/**
 * Runs `work` once for all who ask for `key` meanwhile. One caller's abort ends its own wait; the work
 * stops when nobody waits for it any more. Whoever waited for another's work that failed tries its own:
 * the other may have left, or read from another source.
 */
async function shared(
  snapshotter: Snapshotter,
  key: string,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const all = running.get(snapshotter) ?? new Map<string, Shared>();
  running.set(snapshotter, all);
  while (true) {
    const others = all.get(key);
    if (!others) return await join(begin(all, key, work), signal);
    try {
      return await join(others, signal);
    } catch {
      signal?.throwIfAborted();
      if (all.get(key) === others) all.delete(key);
    }
  }
}

function begin(
  all: Map<string, Shared>,
  key: string,
  work: (signal: AbortSignal) => Promise<void>,
): Shared {
  const abort = new AbortController();
  const begun: Shared = { result: work(abort.signal), users: 0, abort };
  all.set(key, begun);
  const forget = () => {
    if (all.get(key) === begun) all.delete(key);
  };
  begun.result.then(forget, forget);
  return begun;
}

async function join(work: Shared, signal: AbortSignal | undefined): Promise<void> {
  work.users++;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal!.reason);
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.race([work.result, aborted]);
  } finally {
    signal?.removeEventListener("abort", onAbort);
    if (--work.users === 0) {
      work.abort.abort();
      // What it leaves behind is gone when this returns.
      await work.result.catch(() => {/* thrown above, or the caller's own abort */});
    }
  }
}

interface LayerWork {
  image: ResolvedImage;
  index: number;
  name: string;
  parent?: string;
  diffID: Digest;
  /** What the image's layers may still have. */
  budget?: { readonly limit: number; left: number };
  body: () => Promise<ReadableStream<Uint8Array> | LayerFile>;
  report: (state: UnpackProgress["state"]) => void;
  signal: AbortSignal;
}

async function unpackLayer(snapshotter: Snapshotter, work: LayerWork): Promise<void> {
  work.report("fetching");
  const body = await work.body();
  work.report("unpacking");
  const active = await snapshotter.prepare(`unpack-${crypto.randomUUID()}`, work.parent);
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
    // One sync at the end serves all layers.
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
 * Fetches layers ahead of their turn into temporary files; the layer whose turn it is streams, and one that
 * is a local file already is read in place.
 */
class Prefetcher {
  #image: ResolvedImage;
  #bodies = new Map<number, Promise<Body>>();
  #files = new Map<number, string>();
  #abort = new AbortController();
  #signal: AbortSignal;
  /** Rejects when the caller leaves or all is done. */
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
    this.#aborted.catch(() => {/* only raced */});
  }

  /** The layer's bytes; begins fetching those after it. */
  async take(index: number): Promise<Body> {
    if (!this.#bodies.has(index)) this.#start(index, false);
    this.#next = Math.max(this.#next, index + 1);
    const last = Math.min(index + AHEAD, this.#image.manifest.layers.length - 1);
    for (; this.#next <= last; this.#next++) this.#start(this.#next, true);
    return await this.#bodies.get(index)!;
  }

  /** Releases what was kept for a layer. */
  async drop(index: number): Promise<void> {
    const body = this.#bodies.get(index);
    this.#bodies.delete(index);
    if (!body) return;
    const settled = await body.catch(() => undefined);
    // Somebody else unpacked it, and the stream was not read.
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
    // pipeTo waits until the source has let go; who leaves does not.
    await Promise.race([copied, this.#aborted]);
    return { path, offset: 0, size: blob.size };
  }
}
