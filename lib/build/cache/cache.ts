/**
 * The build cache as a whole, kept below a ceiling (SVC_BUILD_CACHE_KEEP_BYTES). The least recently used item
 * goes first, whatever its kind. Items that a running build or a workload uses stay.
 */
import type { BuildCacheUsage } from "../../api/storage.ts";
import { Mutex } from "../../base/mutex.ts";
import type { CacheItem, Shelf } from "./shelf.ts";

export interface PruneOptions {
  /** Only report what would be removed. */
  dryRun?: boolean;
  signal?: AbortSignal;
}

export interface Pruned {
  /** Bytes on disk. */
  bytes: number;
  items: number;
}

export class BuildCache {
  #shelves: Shelf[];
  /** Ceiling in bytes; undefined: no ceiling, and only stale items are removed. */
  readonly keepBytes: number | undefined;
  #lock = new Mutex();

  constructor(shelves: Shelf[], keepBytes: number | undefined) {
    this.#shelves = shelves;
    this.keepBytes = keepBytes;
  }

  /** Keeps everything that builds find from now on, until the result is disposed of. */
  pin(): Disposable {
    const pins = new DisposableStack();
    for (const shelf of this.#shelves) if (shelf.pin) pins.use(shelf.pin());
    return pins;
  }

  /** Measures all items on disk. */
  async usage(signal?: AbortSignal): Promise<BuildCacheUsage> {
    const kinds: BuildCacheUsage["kinds"] = {};
    let bytes = 0;
    for (const shelf of this.#shelves) {
      const items = await shelf.items(signal);
      const size = items.reduce((sum, item) => sum + item.size, 0);
      kinds[shelf.kind] = { count: items.length, bytes: size };
      bytes += size;
    }
    return { bytes, kinds, ...(this.keepBytes !== undefined && { keepBytes: this.keepBytes }) };
  }

  /**
   * Removes items beyond the ceiling. One prune runs at a time; a crash in the middle only leaves a smaller
   * cache.
   */
  async prune({ dryRun = false, signal }: PruneOptions = {}): Promise<Pruned> {
    return await this.#lock.run(async () => {
      const all = await this.#weigh(signal);
      let left = all.reduce((sum, { item }) => sum + item.size, 0);
      const pruned: Pruned = { bytes: 0, items: 0 };
      for (const { shelf, item } of all) {
        signal?.throwIfAborted();
        if (item.held || !item.stale && left <= (this.keepBytes ?? Infinity)) continue;
        if (!dryRun && !await shelf.remove(item.id)) continue;
        left -= item.size;
        pruned.bytes += item.size;
        pruned.items++;
      }
      return pruned;
    });
  }

  /** All items in the order of removal: among items of one age, a child before the item that it lies on. */
  async #weigh(signal?: AbortSignal): Promise<{ shelf: Shelf; item: CacheItem }[]> {
    const all: { shelf: Shelf; item: CacheItem }[] = [];
    for (const shelf of this.#shelves) {
      for (const item of await shelf.items(signal)) all.push({ shelf, item });
    }
    const staleFirst = ({ item }: { item: CacheItem }) => item.stale ? 0 : 1;
    return all.sort((a, b) =>
      staleFirst(a) - staleFirst(b) || a.item.used - b.item.used ||
      (b.item.order ?? 0) - (a.item.order ?? 0)
    );
  }
}
