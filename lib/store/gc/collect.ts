/**
 * Mark and sweep (DESIGN.md section 8). The mark reads every manifest's record. The sweep goes through the
 * blobs and removes, batch by batch, blobs that the mark does not hold and the guard grants. Memory: 16 bytes
 * and some air for each reference and manifest, and one batch. A collection that ends early has removed nothing
 * but garbage; the next one goes on with the rest.
 */
import type { GcResult } from "../../api/storage.ts";
import { SvcError } from "../../base/errors.ts";
import { blobKey, BLOBS, CLOCK, digestOfKey, referrerKey, RESCUED } from "../keys.ts";
import type { BlobPlaces } from "../blob_places.ts";
import type { Manifests } from "../manifests.ts";
import type { CallOptions, ObjectStore } from "../object_store.ts";
import type { Uploads } from "../uploads.ts";
import { eachOf } from "./each.ts";
import { type Guard, IDLE_MS } from "./guard.ts";
import { deadManifests, manifestOfKey, Mark, type Retention } from "./mark.ts";
import { keyPages } from "./pages.ts";

/** Uploads that nobody touched for this long are dropped, at the latest by a collection. */
export const UPLOAD_IDLE_MS = 7 * 24 * 3_600_000;
/** Blobs that the guard gets in one call. */
const BATCH = 1_000;
/** Removals and reads that run at once. */
const PARALLEL = 16;

export interface GcProgress {
  phase: "manifests" | "mark" | "sweep";
  /** Blobs seen so far. */
  blobs: number;
  blobsDeleted: number;
}

export interface CollectOptions extends CallOptions {
  /** Counts, and removes nothing. */
  dryRun?: boolean;
  /** Default "keep". */
  untagged?: Retention;
  /** Milliseconds without activity after which a push counts as given up; default one hour. */
  idleMs?: number;
  onProgress?: (progress: GcProgress) => void;
}

export interface StoreParts {
  objects: ObjectStore;
  places: BlobPlaces;
  manifests: Manifests;
  guard: Guard;
  uploads: Uploads;
}

class Collection {
  readonly result: GcResult = {
    blobsDeleted: 0,
    bytesReclaimed: 0,
    manifestsDeleted: 0,
    buildCacheBytesReclaimed: 0,
    durationMs: 0,
    blobsLeased: 0,
    uploadsExpired: 0,
  };
  #blobs = 0;
  #call: CallOptions;
  #idleMs: number;

  constructor(private readonly parts: StoreParts, private readonly options: CollectOptions) {
    this.#call = { signal: options.signal };
    this.#idleMs = options.idleMs ?? IDLE_MS;
  }

  #report(phase: GcProgress["phase"]): void {
    const { blobsDeleted } = this.result;
    this.options.onProgress?.({ phase, blobs: this.#blobs, blobsDeleted });
  }

  async run(): Promise<GcResult> {
    const { parts: { objects, manifests, guard, uploads }, options } = this;
    const began = performance.now();
    if (!options.dryRun) {
      this.result.uploadsExpired = await uploads.expire(UPLOAD_IDLE_MS, this.#call);
    }
    const mark = new Mark(objects, manifests);
    // Watched from before the mark reads: it may miss manifests that are published meanwhile.
    try {
      await guard.watch((keys) => mark.add(keys));
      const doomed = await this.#dropManifests();
      this.#report("mark");
      await mark.scan(this.#call, doomed && ((key) => doomed.has(key)));
      await this.#sweep(mark, BLOBS);
      if (guard.shared) {
        await this.#sweep(mark, RESCUED);
        if (!options.dryRun) await this.#sweepCopies();
      }
    } finally {
      await guard.watch(undefined);
    }
    this.result.durationMs = Math.round(performance.now() - began);
    return this.result;
  }

  /** The current time by the store's clock. */
  async #now(): Promise<Date> {
    const { objects } = this.parts;
    if (objects.exclusive) return new Date();
    await objects.put(CLOCK, new Uint8Array(), this.#call);
    return (await objects.stat(CLOCK, this.#call))?.modified ?? new Date();
  }

  /** Removes dead manifests. A dry run removes none and returns their keys, which its mark leaves out. */
  async #dropManifests(): Promise<Set<string> | undefined> {
    const { untagged: retention = "keep", dryRun } = this.options;
    if (retention === "keep") return undefined;
    const { manifests, guard } = this.parts;
    const all = new Set<string>();
    for await (const repository of manifests.repositories(this.#call)) {
      this.#report("manifests");
      const when = { retention, now: await this.#now() };
      const look = () => deadManifests(this.parts, repository, when, this.#call);
      const dead = await look();
      if (dryRun) {
        for (const key of dead.keys()) all.add(key);
        this.result.manifestsDeleted += dead.size;
        continue;
      }
      await eachOf(dead.values(), PARALLEL, async (manifest) => {
        const { subject, keys } = manifest;
        if (!subject) return;
        const { digest } = manifestOfKey(keys.at(-1)!);
        const referrer = referrerKey(repository, subject, digest);
        manifest.keys = [...await manifests.places.keys(referrer, this.#call), ...keys];
      });
      const { removed } = await guard.sweep([...dead.keys()], {
        ...this.#call,
        idleMs: this.#idleMs,
        recheck: async (keys) => {
          const again = await look();
          return keys.filter((key) => again.has(key));
        },
        remove: (keys) =>
          eachOf(keys, PARALLEL, (key) => manifests.drop(repository, key, dead.get(key)!.keys)),
      });
      this.result.manifestsDeleted += removed;
    }
    return dryRun ? all : undefined;
  }

  async #sweep(mark: Mark, prefix: string): Promise<void> {
    const { objects, guard } = this.parts;
    // The leases of these blobs may have been lost with the process that gave them.
    const unsure = guard.unsureTime(this.#idleMs);
    let batch: string[] = [];
    for await (const keys of keyPages(objects, prefix, this.#call)) {
      for (const key of keys) {
        if (++this.#blobs % BATCH === 0) this.#report("sweep");
        if (mark.holds(key)) continue;
        if (unsure) {
          const info = await objects.stat(key, this.#call);
          if (info && info.modified >= unsure.from && info.modified <= unsure.to) {
            this.result.blobsLeased++;
            continue;
          }
        }
        batch.push(key);
        if (batch.length < BATCH) continue;
        await this.#sweepBatch(mark, batch);
        batch = [];
      }
    }
    if (batch.length > 0) await this.#sweepBatch(mark, batch);
    this.#report("sweep");
  }

  /** Removes copies that are no longer needed: the blob's first key exists, and nobody condemns it. */
  async #sweepCopies(): Promise<void> {
    const { objects, guard } = this.parts;
    const copies: string[] = [];
    for await (const entry of objects.list(RESCUED, this.#call)) {
      if ("key" in entry) copies.push(entry.key);
    }
    const spare = async (key: string) => {
      const first = blobKey(digestOfKey(key)!);
      return !await guard.condemned(first, this.#call) &&
        await objects.stat(first, this.#call) !== undefined;
    };
    await guard.sweep(copies, {
      ...this.#call,
      idleMs: this.#idleMs,
      recheck: async (keys) => {
        const free: string[] = [];
        for (const key of keys) if (await spare(key)) free.push(key);
        return free;
      },
      remove: (keys) => this.#deleteAll(keys),
    });
  }

  /** Takes no signal: after an abort nobody would know whether a deletion was done. */
  async #deleteAll(keys: string[]): Promise<void> {
    const { objects } = this.parts;
    if (objects.deleteAll) return await objects.deleteAll(keys);
    await eachOf(keys, PARALLEL, async (key) => void await objects.delete(key));
  }

  async #sweepBatch(mark: Mark, keys: string[]): Promise<void> {
    const { objects, guard } = this.parts;
    const remove = async (doomed: string[]) => {
      const there: { key: string; size: number }[] = [];
      await eachOf(doomed, PARALLEL, async (key) => {
        const info = await objects.stat(key);
        if (info) there.push(info);
      });
      if (!this.options.dryRun) {
        await this.#deleteAll(there.map(({ key }) => key));
        for (const { key } of there) await this.parts.places.damage.gone(key);
      }
      this.result.blobsDeleted += there.length;
      for (const { size } of there) this.result.bytesReclaimed += size;
    };
    if (this.options.dryRun) return await remove(keys);
    const { leased } = await guard.sweep(keys, {
      ...this.#call,
      idleMs: this.#idleMs,
      recheck: async (rest) => {
        if (guard.shared) await mark.scan(this.#call);
        return rest.filter((key) => !mark.holds(key));
      },
      remove,
    });
    this.result.blobsLeased += leased;
  }
}

/** One at a time; a second call while one runs throws `conflict`. */
export class Collector {
  #running = false;

  constructor(private readonly parts: StoreParts) {}

  async collect(options: CollectOptions = {}): Promise<GcResult> {
    if (this.#running) {
      throw new SvcError("conflict", "Cannot collect garbage: a collection is under way");
    }
    this.#running = true;
    try {
      return await new Collection(this.parts, options).run();
    } finally {
      this.#running = false;
    }
  }
}
