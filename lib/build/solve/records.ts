/**
 * The build cache: which key has which snapshot. A record is a small file; one whose snapshot is gone is
 * a miss. Links lead from a key that is known early (what a step copies from another stage) to the key of
 * the content that was found there.
 */
import { ensureDir, readJson, removeTree, writeFileAtomic } from "../../base/fs.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";
import type { Snapshotter } from "../../snapshot/snapshotter.ts";

/** A layer once it was packed. */
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
  /** The step's reference time, seconds since 1970. */
  reference: number;
  blob?: LayerBlob;
}

/** Prefix of the names of snapshots that only records refer to. */
export const SNAPSHOT_PREFIX = "build-";

export class CacheRecords {
  #root: string;
  #snapshotter: Snapshotter;

  private constructor(root: string, snapshotter: Snapshotter) {
    this.#root = root;
    this.#snapshotter = snapshotter;
  }

  /** `root` is made if missing. */
  static async open(root: string, snapshotter: Snapshotter): Promise<CacheRecords> {
    await ensureDir(`${root}/steps`);
    await ensureDir(`${root}/links`);
    return new CacheRecords(root, snapshotter);
  }

  /** The record of a key whose snapshot is there. */
  async find(key: string): Promise<CacheRecord | undefined> {
    const record = await this.#read(key);
    if (!record) return undefined;
    if (await this.#snapshotter.stat(record.snapshot)) return record;
    await removeTree(this.#path("steps", key));
    return undefined;
  }

  async put(record: CacheRecord): Promise<void> {
    await writeFileAtomic(this.#path("steps", record.key), JSON.stringify(record));
  }

  /** Adds the packed layer, unless the record has gone on to another snapshot. */
  async setBlob(key: string, snapshot: string, blob: LayerBlob): Promise<void> {
    const record = await this.#read(key);
    if (record?.snapshot === snapshot) await this.put({ ...record, blob });
  }

  async link(key: string): Promise<string | undefined> {
    const link = await readSound<{ to: string }>(this.#path("links", key));
    return link?.to;
  }

  async putLink(key: string, to: string): Promise<void> {
    await writeFileAtomic(this.#path("links", key), JSON.stringify({ to }));
  }

  /**
   * Removes snapshots of builds that no record names: what `--no-cache` replaced, and what a crash cut
   * off. Only safe while no build runs.
   */
  async sweep(): Promise<number> {
    const named = new Set<string>();
    for await (const { name } of Deno.readDir(`${this.#root}/steps`)) {
      const record = await readSound<CacheRecord>(`${this.#root}/steps/${name}`);
      if (record) named.add(record.snapshot);
      else await removeTree(`${this.#root}/steps/${name}`);
    }
    let removed = 0;
    const stale: { name: string; kind: string; created: Date }[] = [];
    for await (const info of this.#snapshotter.list()) {
      if (info.name.startsWith(SNAPSHOT_PREFIX) && !named.has(info.name)) stale.push(info);
    }
    // Children are younger than what they stand on.
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

  async #read(key: string): Promise<CacheRecord | undefined> {
    const record = await readSound<CacheRecord>(this.#path("steps", key));
    return record?.version === 1 && record.key === key ? record : undefined;
  }

  #path(kind: "steps" | "links", key: string): string {
    return `${this.#root}/${kind}/${key}`;
  }
}

/** A file that is not JSON is as good as missing: the step runs again. */
async function readSound<T>(path: string): Promise<T | undefined> {
  try {
    return await readJson<T>(path);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
