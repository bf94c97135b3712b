/** What the drivers overlay, native and containerd do differently; the rest is in tree_snapshotter.ts. */
import type { DiffSource } from "./diff_tree.ts";

/** One snapshot's folders. */
export interface TreePlace {
  /** Folder that holds all snapshots' folders. */
  root: string;
  /** This snapshot's folder: `fs` is its tree, other entries belong to the driver. */
  folder: string;
  /** Trees below it, nearest first. */
  lower: string[];
  /** Number of the nearest trees in `lower` that this snapshot amends: their changes count as its own. */
  amended: number;
}

export interface SnapshotDriver {
  readonly name: "overlay" | "native";
  /** True where `fs` holds only changes. */
  readonly changesOnly: boolean;
  /** Fills the new, empty folder for an active snapshot. */
  create(place: TreePlace, signal?: AbortSignal): Promise<void>;
  /** Mounts the tree read-write. */
  mount(place: TreePlace, target: string, options: { volatile?: boolean }): Promise<void>;
  /** Mounts a committed tree read-only. */
  view(place: TreePlace, target: string): Promise<void>;
  /** Removes what only an active snapshot needs. */
  freeze(place: TreePlace): Promise<void>;
  /**
   * Releases what the driver keeps outside the snapshot's folder, which is already gone. Missing things are
   * ignored.
   */
  discard?(dir: string): Promise<void>;
  /** Syncs to disk what the driver keeps outside the snapshots' folder. */
  sync?(): Promise<void>;
  /** The trees that `diff`, `apply` and `commit` work on. */
  source(place: TreePlace): DiffSource;
}
