/**
 * The build cache: which key has which snapshot. A record is a small file; a record whose snapshot is gone is
 * a miss. A link leads from a key that is known early (that of a COPY from another stage) to the key of the
 * content that was found. Records are not synced to disk: a record lost in a power cut costs one run of its
 * step. Each record names its own key, so that a torn file, or one with another file's bytes, is recognised.
 * Records are read and written in one synchronous call, so that only a crash leaves a torn one.
 */
import { ensureDir, removeTree, writeJsonInPlace } from "../../base/fs.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";
import { type Shelf, SMALL_FILE } from "../cache/shelf.ts";
import type { Snapshotter } from "../../snapshot/snapshotter.ts";

/** A packed layer. */
export interface LayerBlob {
  descriptor: Descriptor;
  /** Digest of the uncompressed archive. */
  diffID: Digest;
}

export interface CacheRecord {
  version: 1;
  /** sha256 in hex. */
  key: string;
  /** Name of the committed snapshot. */
  snapshot: string;
  /** When the step was carried out, on this or another machine; milliseconds since 1970. */
  created: number;
  /** By the key of the packing (lib/build/export/layers.ts). */
  blobs?: Record<string, LayerBlob>;
}

/** The form of a key (keys.ts); other file names are left by interrupted writes. */
const KEY = /^[0-9a-f]{64}$/;

interface LinkRecord {
  key: string;
  to: string;
}

/** Name prefix of snapshots that only records refer to. */
export const SNAPSHOT_PREFIX = "build-";

export class CacheRecords {
  #root: string;
  #snapshotter: Snapshotter;
  /** Keys by the snapshot that their records name. */
  #keys = new Map<string, Set<string>>();
  #snapshots = new Map<string, string>();
  /** Keys of links, with the time of their last use in milliseconds since 1970. */
  #links = new Map<string, number>();

  private constructor(root: string, snapshotter: Snapshotter) {
    this.#root = root;
    this.#snapshotter = snapshotter;
  }

  /** `root` is made if missing; torn files in it are removed. */
  static async open(root: string, snapshotter: Snapshotter): Promise<CacheRecords> {
    await ensureDir(`${root}/steps`);
    await ensureDir(`${root}/links`);
    const records = new CacheRecords(root, snapshotter);
    for await (const { name } of Deno.readDir(`${root}/steps`)) {
      const record = await readSound<CacheRecord>(`${root}/steps/${name}`);
      if (record?.key === name && typeof record.snapshot === "string") records.#index(record);
      else await removeTree(`${root}/steps/${name}`);
    }
    for await (const { name } of Deno.readDir(`${root}/links`)) {
      if (!KEY.test(name)) {
        await removeTree(`${root}/links/${name}`);
        continue;
      }
      const { mtime } = await Deno.stat(`${root}/links/${name}`);
      records.#links.set(name, mtime?.getTime() ?? 0);
    }
    return records;
  }

  /** The record of a key, if its snapshot exists. */
  async find(key: string): Promise<CacheRecord | undefined> {
    if (!this.#snapshots.has(key)) return undefined;
    const record = await this.#read(key);
    if (!record) return undefined;
    if (await this.#snapshotter.stat(record.snapshot)) {
      await this.#snapshotter.touch(record.snapshot);
      return record;
    }
    await this.#remove(key);
    return undefined;
  }

  async put(record: CacheRecord): Promise<void> {
    writeJsonInPlace(this.#path("steps", record.key), record);
    this.#index(record);
  }

  /** Adds a packed layer to the record, unless the record names another snapshot by now. */
  async setBlob(
    key: string,
    snapshot: string,
    packing: string,
    blob: LayerBlob,
  ): Promise<void> {
    const record = await this.#read(key);
    if (record?.snapshot !== snapshot) return;
    await this.put({ ...record, blobs: { ...record.blobs, [packing]: blob } });
  }

  async link(key: string): Promise<string | undefined> {
    if (!this.#links.has(key)) return undefined;
    const link = await readSound<LinkRecord>(this.#path("links", key));
    if (link?.key !== key || typeof link.to !== "string") return undefined;
    const now = new Date();
    this.#links.set(key, now.getTime());
    await Deno.utime(this.#path("links", key), now, now).catch(() => {/* pruned meanwhile */});
    return link.to;
  }

  async putLink(key: string, to: string): Promise<void> {
    const record: LinkRecord = { key, to };
    writeJsonInPlace(this.#path("links", key), record);
    this.#links.set(key, Date.now());
  }

  /** Number of records that name this snapshot. */
  count(snapshot: string): number {
    return this.#keys.get(snapshot)?.size ?? 0;
  }

  /** Removes the records of a snapshot that is gone. */
  async forget(snapshot: string): Promise<void> {
    for (const key of [...this.#keys.get(snapshot) ?? []]) await this.#remove(key);
  }

  /** The links as a shelf of the cache. Without a link its step runs again to give the content. */
  get links(): Shelf {
    return {
      kind: "links",
      items: () =>
        Promise.resolve(
          [...this.#links].map(([id, used]) => ({ id, size: SMALL_FILE, used })),
        ),
      remove: async (id) => {
        await removeTree(this.#path("links", id));
        this.#links.delete(id);
        return true;
      },
    };
  }

  /**
   * Removes the builds' snapshots that no record names: those replaced with `--no-cache`, and those that a
   * crash left. Only safe while no build runs.
   */
  async sweep(): Promise<number> {
    const stale: { name: string; created: Date }[] = [];
    for await (const info of this.#snapshotter.list()) {
      if (!info.name.startsWith(SNAPSHOT_PREFIX)) continue;
      if (this.count(info.name) === 0) stale.push(info);
    }
    let removed = 0;
    // A child was created after its parent, so the newest snapshot goes first.
    for (const { name } of stale.sort((a, b) => b.created.getTime() - a.created.getTime())) {
      try {
        await this.#snapshotter.remove(name);
        removed++;
      } catch (error) {
        if ((error as { code?: string }).code !== "conflict") throw error;
      }
    }
    return removed;
  }

  #index({ key, snapshot }: CacheRecord): void {
    const before = this.#snapshots.get(key);
    if (before !== undefined) this.#keys.get(before)?.delete(key);
    this.#snapshots.set(key, snapshot);
    const keys = this.#keys.get(snapshot) ?? new Set();
    this.#keys.set(snapshot, keys.add(key));
  }

  async #remove(key: string): Promise<void> {
    await removeTree(this.#path("steps", key));
    const snapshot = this.#snapshots.get(key);
    this.#snapshots.delete(key);
    if (snapshot === undefined) return;
    const keys = this.#keys.get(snapshot);
    keys?.delete(key);
    if (keys?.size === 0) this.#keys.delete(snapshot);
  }

  async #read(key: string): Promise<CacheRecord | undefined> {
    const record = await readSound<CacheRecord>(this.#path("steps", key));
    return record?.version === 1 && record.key === key ? record : undefined;
  }

  #path(kind: "steps" | "links", key: string): string {
    return `${this.#root}/${kind}/${key}`;
  }
}

/** Undefined for a missing or damaged file: the step runs again. */
async function readSound<T>(path: string): Promise<T | undefined> {
  try {
    // Our own: a record that svc wrote.
    return JSON.parse(Deno.readTextFileSync(path)) as T;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof Deno.errors.NotFound) return undefined;
    if (!(error instanceof Deno.errors.IsADirectory)) throw error;
    // A folder in the record's place would block the next write.
    await removeTree(path);
    return undefined;
  }
}
