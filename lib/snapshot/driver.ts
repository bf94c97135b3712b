/** What overlay, native and containerd's do differently; everything else is in tree_snapshotter.ts. */
import type { DiffSource } from "./diff_tree.ts";

/** One snapshot's folders. */
export interface TreePlace {
  /** Folder that holds all snapshots' folders. */
  root: string;
  /** This snapshot's folder: `fs` is its tree, the rest is the driver's. */
  folder: string;
  /** Trees under it, nearest first. */
  lower: string[];
  /** How many of them it amends: the nearest ones, whose changes count as its own. */
  amended: number;
}

export interface SnapshotDriver {
  readonly name: "overlay" | "native";
  /** True where `fs` holds changes only. */
  readonly changesOnly: boolean;
  /** Fills the new, empty folder for an active snapshot. */
  create(place: TreePlace, signal?: AbortSignal): Promise<void>;
  /** Mounts the tree read-write. */
  mount(place: TreePlace, target: string, options: { volatile?: boolean }): Promise<void>;
  /** Mounts a committed tree read-only. */
  view(place: TreePlace, target: string): Promise<void>;
  /** Removes what only an active snapshot needs. */
  freeze(place: TreePlace): Promise<void>;
  /** Releases what is kept outside the snapshot's folder, which is gone already; missing is fine. */
  discard?(dir: string): Promise<void>;
  /** Writes to disk what is kept outside the snapshots' folder. */
  sync?(): Promise<void>;
  /** What `diff`, `apply` and `commit` work on. */
  source(place: TreePlace): DiffSource;
}
