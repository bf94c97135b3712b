/**
 * Copy-on-write file trees, shared by the builder (a step's result) and the bare backend (a container's
 * root). A committed snapshot never changes; an active one is written by one owner and then committed or
 * removed. Every implementation passes `test/contract/snapshotter.ts`.
 */
import type { DiffSource } from "./diff_tree.ts";
import type { ArchivePart } from "../oci/tar_blocks.ts";
import type { ApplyResult } from "./apply_tree.ts";

/** How ids of active snapshots begin that a layer is unpacked into: of an earlier process they are of no use. */
export const UNPACKING = "unpack-";

export interface SnapshotInfo {
  /** A committed snapshot's name, or an active one's id. */
  name: string;
  kind: "active" | "committed";
  parent?: string;
  /** Bytes of this snapshot alone, where known. */
  size?: number;
  created: Date;
  /**
   * Time of the last `touch`, of the last `prepare` on top, or of creation; pruning removes the oldest first.
   */
  used: Date;
  /** All names of a committed snapshot; first the name that it was committed under. */
  names?: readonly string[];
  /** The snapshot is viewed, or was asked for by a holder of `use`. */
  held?: boolean;
}

export interface ActiveSnapshot {
  /** Unique while active; also the name to give to `remove` or `commit`. */
  readonly id: string;
  readonly parent?: string;
  /** Mounts the merged tree at `target` (created if missing), read-write. Idempotent per target. */
  mount(target: string): Promise<void>;
  /** Unmounts; a target that is not mounted is fine. */
  unmount(target: string): Promise<void>;
  /** Where its changes and the trees below lie, for one who reads them. */
  source(): DiffSource;
}

export interface Snapshotter {
  /** "overlay" or "native". */
  readonly driver: string;
  /** Folder for temporary files on the snapshots' file system; emptied when the snapshotter is opened. */
  readonly scratch: string;
  stat(name: string): Promise<SnapshotInfo | undefined>;
  /**
   * Makes a writable tree on top of the committed `parent`; without one it is empty. Throws `conflict` where
   * `id` exists, `not_found` where the parent does not.
   */
  prepare(id: string, parent?: string, options?: PrepareOptions): Promise<ActiveSnapshot>;
  /** The active snapshot of that id; it survives a restart of the server. */
  active(id: string): Promise<ActiveSnapshot | undefined>;
  /**
   * Unpacks a layer tar (gzip, zstd or plain), white-outs included, into an active snapshot that is not
   * mounted. After a failure the snapshot can only be removed. Throws `archive_invalid`, `storage_full`,
   * `too_large`.
   */
  apply(
    active: ActiveSnapshot,
    layer: ReadableStream<Uint8Array> | LayerFile,
    options?: ApplyOptions,
  ): Promise<AppliedLayer>;
  /**
   * Freezes an active snapshot (unmounted by the caller) under `name`; atomic and durable. Where `name`
   * exists already the active snapshot is dropped: equal names mean equal content.
   */
  commit(active: ActiveSnapshot, name: string, options?: CommitOptions): Promise<void>;
  /** Adds a name to a committed snapshot: a build step's result is also the snapshot of an image's layers. */
  alias(name: string, existing: string): Promise<void>;
  /**
   * Removes an active or committed snapshot; a missing one is ignored. Throws `conflict` where it has
   * children.
   */
  remove(name: string): Promise<void>;
  /** Read-only view of a committed snapshot at `target`. */
  view(name: string, target: string): Promise<AsyncDisposable>;
  /**
   * The layer tar of what `name` changed on its parent (OCI rules: `.wh.` white-outs, `.wh..wh..opq`), in
   * blocks (lib/oci/tar_blocks.ts).
   */
  diff(name: string, options?: DiffOptions): AsyncIterable<ArchivePart>;
  list(): AsyncIterable<SnapshotInfo>;
  touch(name: string): Promise<void>;
  /**
   * Until it is disposed of, `prune` keeps every snapshot that is from now on asked for by name, made, named
   * or built on. A build or deployment holds it to keep what it has found.
   */
  use(): Disposable;
  /**
   * Removes a committed snapshot with all its names; true where it was removed. A snapshot that is held or
   * has children stays; a missing one is ignored.
   */
  prune(name: string): Promise<boolean>;
  /** When this resolves, everything committed before survives a power cut. */
  sync(): Promise<void>;
}

export interface ApplyOptions {
  /** Most bytes of the layer's archive, decompressed. */
  maxBytes?: number;
  signal?: AbortSignal;
}

/** A layer that is a range of a file, which a Worker can read by itself. */
export interface LayerFile {
  path: string;
  offset: number;
  /** Bytes. */
  size: number;
}

export interface AppliedLayer extends ApplyResult {
  /** "sha256:…" of the uncompressed archive. */
  diffID: string;
  /** Bytes of the uncompressed archive. */
  size: number;
}

export interface PrepareOptions {
  /**
   * Nothing in the snapshot is written to disk before `commit`, whatever fsync calls its programs make: build
   * steps run faster. A crash of the machine loses the active snapshot; a crash of the server does not.
   */
  volatile?: boolean;
  /**
   * Name of a committed snapshot with the same parent. The new snapshot begins with its changes, and the new
   * layer holds these and the later changes. Throws `not_found` where there is no snapshot of that name,
   * `conflict` where it has another parent.
   */
  amend?: string;
}

export interface CommitOptions {
  /**
   * Does not wait for the disk: the snapshot is visible at once. After a crash of the machine before the next
   * `sync` or other commit, it exists as a whole or not at all.
   */
  lazy?: boolean;
  signal?: AbortSignal;
}

export interface DiffOptions {
  /**
   * Latest modification time in the archive, in seconds since 1970; later times are replaced by it. The
   * snapshot itself is not changed.
   */
  epoch?: number;
  signal?: AbortSignal;
}
