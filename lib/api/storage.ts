/** Garbage collection, usage and verification on the wire. */
import type { Problem } from "./problem.ts";

/** Answer of `POST /.svc/v1/gc`. Of a dry run: the result that a collection would have. */
export interface GcResult {
  blobsDeleted: number;
  /** Bytes of deleted blobs. */
  bytesReclaimed: number;
  manifestsDeleted: number;
  buildCacheBytesReclaimed: number;
  /** Of unpacked images that no deployment uses; absent: the backend keeps none of its own. */
  unpackedBytesReclaimed?: number;
  durationMs: number;
  /** Garbage that stays because a client that pushes was told that it exists. */
  blobsLeased: number;
  /** Partial uploads that were not continued. */
  uploadsExpired: number;
}

/** The builder's caches for later builds; sizes are bytes on disk. */
export interface BuildCacheUsage {
  bytes: number;
  /** By kind: snapshots, links, copiedFolders, cacheMounts, contexts, archives. */
  kinds: Record<string, { count: number; bytes: number }>;
  /** The limit, if there is one. */
  keepBytes?: number;
}

/** Answer of `GET /.svc/v1/storage`. */
export interface StorageUsage {
  content: {
    repositories: number;
    manifests: number;
    tags: number;
    blobs: number;
    blobBytes: number;
    /** Second copies of blobs, made because a collector that died may still delete the first copy. */
    copies: number;
    copyBytes: number;
    uploads: number;
    uploadBytes: number;
    /** Damaged objects that were moved to quarantine. */
    quarantined: number;
    quarantinedBytes: number;
  };
  /** Absent where nothing was built, or builds run on another server. */
  buildCache?: BuildCacheUsage;
  /** Of SVC_STORAGE_SCRUB; absent where no scrub ever ran. */
  scrub?: ScrubStatus;
}

/** A damaged blob that the background scrub found. */
export interface ScrubDamage {
  key: string;
  message: string;
  /** Absent where a push relies on the blob: it stays in place and is hidden from readers. */
  movedTo?: string;
  /** True where the mirror's upstream had the blob and it was fetched again. */
  refetched: boolean;
  /** RFC 3339. */
  found: string;
}

/** The state of the background scrub, which reads every blob again. */
export interface ScrubStatus {
  /** When this round began; RFC 3339. */
  began: string;
  /** Absent: the round is still running. */
  finished?: string;
  /** Milliseconds within which a round ends. */
  withinMs: number;
  blobs: number;
  bytes: number;
  /** Bytes to read, counted when the round began. */
  totalBytes: number;
  /** The newest damages, also of earlier rounds. */
  damaged: ScrubDamage[];
}

/** Something that `svc storage verify` found wrong. */
export interface StorageProblem {
  kind: "blob" | "manifest" | "tag" | "referrer";
  /** Key of the damaged object. */
  key: string;
  message: string;
  /** Key that the object was moved to. */
  movedTo?: string;
}

export interface VerifyResult {
  blobs: number;
  bytes: number;
  manifests: number;
  tags: number;
  problems: number;
  /** Findings that are valid, but probably not intended. */
  warnings: number;
  quarantined: number;
  durationMs: number;
}

/** A line of the answer of `POST /.svc/v1/storage/verify`. */
export type VerifyEvent =
  | { type: "progress"; blobs: number; bytes: number }
  | ({ type: "problem" | "warning" } & StorageProblem)
  | { type: "result"; result: VerifyResult }
  | { type: "error"; error: Problem };

/** A line of the answer of `POST /.svc/v1/gc` as NDJSON. */
export type GcEvent =
  | {
    type: "progress";
    phase: "manifests" | "mark" | "sweep";
    /** Number of blobs that were checked so far. */
    blobs: number;
    blobsDeleted: number;
  }
  | { type: "result"; result: GcResult }
  | { type: "error"; error: Problem };
