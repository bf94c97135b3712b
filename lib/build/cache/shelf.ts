/** The parts of the build cache as pruning sees them: one shelf for each kind of item. */

/** Bytes on disk of a small file, with its directory entry. */
export const SMALL_FILE = 4096;

export interface CacheItem {
  /** Unique on its shelf. */
  id: string;
  /** Bytes on disk. */
  size: number;
  /** Milliseconds since 1970; the least recently used goes first. */
  used: number;
  /**
   * Order of removal among items of the same age, highest first: a child has a higher number than its parent.
   */
  order?: number;
  /** Nothing can use the item any more: it is removed even below the ceiling. */
  stale?: boolean;
  /** The item is in use and stays. */
  held?: boolean;
}

export interface Shelf {
  /** Plural noun for messages: "snapshots". */
  readonly kind: string;
  /** All items, in any order. */
  items(signal?: AbortSignal): Promise<CacheItem[]>;
  /** Removes an item; false where it is in use. Safe while builds run. */
  remove(id: string): Promise<boolean>;
  /** Keeps all items that are asked for from now on, until the result is disposed of. */
  pin?(): Disposable;
}
