/**
 * Copy-on-write file trees, shared by the builder (a step's result) and the bare backend (a container's
 * root). A committed snapshot never changes; an active one is written by one owner and then committed or
 * removed. Every implementation passes `test/contract/snapshotter.ts`.
 */
import type { ArchivePart } from "../oci/tar_blocks.ts";
import type { AppliedLayer, LayerFile } from "./tree_jobs.ts";

export interface SnapshotInfo {
  /** A committed snapshot's name, or an active one's id. */
  name: string;
  kind: "active" | "committed";
  parent?: string;
  /** Bytes of this snapshot alone, where known. */
  size?: number;
  created: Date;
  /** Last `touch`, `prepare` on top of it, or creation: what pruning orders by. */
  used: Date;
  /** Every name of a committed snapshot, the one it was committed under first. */
  names?: readonly string[];
  /** It is viewed, or somebody who holds a `use` has asked for it. */
  held?: boolean;
}

export interface ActiveSnapshot {
  /** Unique while active; also the name to give to `remove` or `commit`. */
  readonly id: string;
  readonly parent?: string;
  /** The folder that holds only what this snapshot changed (overlay upper), where the driver has one. */
  readonly upper?: string;
  /** Mounts the merged tree at `target` (created if missing), read-write. Idempotent per target. */
  mount(target: string): Promise<void>;
  /** Unmounts; a target that is not mounted is fine. */
  unmount(target: string): Promise<void>;
}

export interface Snapshotter {
  /** "overlay" or "native". */
  readonly driver: string;
  /** Folder for temporary files, on the file system of the snapshots; emptied when they are opened. */
  readonly scratch: string;
  stat(name: string): Promise<SnapshotInfo | undefined>;
  /**
   * A writable tree on top of the committed `parent`; none: empty. `id` must be new (`conflict`), the
   * parent there (`not_found`).
   */
  prepare(id: string, parent?: string, options?: PrepareOptions): Promise<ActiveSnapshot>;
  /** The active snapshot of that id, after a restart too. */
  active(id: string): Promise<ActiveSnapshot | undefined>;
  /**
   * Unpacks a layer tar (gzip, zstd or plain) into an active snapshot that is not mounted, white-outs and
   * all. On failure the active snapshot is good for nothing but `remove`. Throws `archive_invalid`,
   * `storage_full`, `too_large`.
   */
  apply(
    active: ActiveSnapshot,
    layer: ReadableStream<Uint8Array> | LayerFile,
    options?: ApplyOptions,
  ): Promise<AppliedLayer>;
  /**
   * Freezes an active snapshot (unmounted by the caller) under `name`; atomic and durable. Where `name`
   * exists already the active one is dropped: same name means same content.
   */
  commit(active: ActiveSnapshot, name: string, options?: CommitOptions): Promise<void>;
  /** A second name for a committed snapshot: a build step's result is also an image's layer chain. */
  alias(name: string, existing: string): Promise<void>;
  /** Removes an active or committed snapshot; one with children throws `conflict`. Missing is fine. */
  remove(name: string): Promise<void>;
  /** Read-only view of a committed snapshot at `target`. */
  view(name: string, target: string): Promise<AsyncDisposable>;
  /** The layer tar (OCI rules: `.wh.` white-outs, `.wh..wh..opq`) of what `name` changed on its parent. */
  diff(name: string, options?: DiffOptions): ReadableStream<Uint8Array>;
  /** The same archive in blocks (lib/oci/tar_blocks.ts), for who packs it. */
  diffBlocks(name: string, options?: DiffOptions): AsyncIterable<ArchivePart>;
  list(): AsyncIterable<SnapshotInfo>;
  touch(name: string): Promise<void>;
  /**
   * Until disposed, `prune` leaves alone whatever is asked for by its name, made, named or built on from
   * now on: what a build or a deploy has found stays where it is.
   */
  use(): Disposable;
  /**
   * Removes a committed snapshot with all its names; true where that is done. One that is held or that
   * others are built on stays, and a missing one is nothing to remove.
   */
  prune(name: string): Promise<boolean>;
  /** When this resolves, everything committed before survives a power cut. */
  sync(): Promise<void>;
}

export interface ApplyOptions {
  /** Bytes of the layer's archive without its compression, at most. */
  maxBytes?: number;
  signal?: AbortSignal;
}

export interface PrepareOptions {
  /**
   * Nothing in it is written to disk before `commit`, whatever fsync its programs call: faster for a
   * build's steps. A machine that crashes loses the active snapshot; a server that crashes does not.
   */
  volatile?: boolean;
  /**
   * Name of a committed snapshot on the same parent: the new one begins with its changes, and its layer
   * holds them and the new ones. Throws `not_found` where there is none of that name, `conflict` where it
   * lies on something else.
   */
  amend?: string;
}

export interface CommitOptions {
  /**
   * Do not wait for the disk: the snapshot is visible at once, and a machine that crashes before the next
   * `sync` or other commit has it whole or not at all.
   */
  lazy?: boolean;
  signal?: AbortSignal;
}

export interface DiffOptions {
  /**
   * Seconds since 1970: a modification time later than this is this one in the archive. The snapshot keeps
   * its own.
   */
  epoch?: number;
  signal?: AbortSignal;
}
