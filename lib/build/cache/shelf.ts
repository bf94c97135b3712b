/** What the build cache is made of, in a form that pruning can weigh: one shelf per kind of thing. */

/** Bytes that a small file takes on disk, with its entry in a folder. */
export const SMALL_FILE = 4096;

export interface CacheItem {
  /** Unique on its shelf. */
  id: string;
  /** Bytes on disk. */
  size: number;
  /** Milliseconds since 1970; the least recently used goes first. */
  used: number;
  /** Items of the same age go by this, the highest first: what lies on something before that. */
  order?: number;
  /** Nothing can come to need it any more: it goes whatever room there is. */
  stale?: boolean;
  /** It is in use now and stays. */
  held?: boolean;
}

export interface Shelf {
  /** For a person, in the plural: "snapshots". */
  readonly kind: string;
  /** Everything on it, in any order. */
  items(signal?: AbortSignal): Promise<CacheItem[]>;
  /** False where it was in use and stays; safe beside builds that run. */
  remove(id: string): Promise<boolean>;
  /** Until disposed, what is asked for from now on stays. */
  pin?(): Disposable;
}
