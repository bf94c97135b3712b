/** Garbage collection, usage and verification on the wire. */
import type { Problem } from "./problem.ts";

/** Answer of `POST /.svc/v1/gc`; of a dry run: what a collection would do. */
export interface GcResult {
  blobsDeleted: number;
  /** Bytes of deleted blobs. */
  bytesReclaimed: number;
  manifestsDeleted: number;
  buildCacheBytesReclaimed: number;
  durationMs: number;
  /** Garbage that stays because a push was told that it exists. */
  blobsLeased: number;
  /** Partial uploads that nobody went on with. */
  uploadsExpired: number;
}

/** What the builder keeps for later builds, bytes on disk. */
export interface BuildCacheUsage {
  bytes: number;
  /** By kind: snapshots, links, copiedFolders, cacheMounts, contexts, archives. */
  kinds: Record<string, { count: number; bytes: number }>;
  /** The ceiling, where there is one. */
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
    /** Second copies of blobs, made where a collector that died may still delete the first. */
    copies: number;
    copyBytes: number;
    uploads: number;
    uploadBytes: number;
    /** Damaged objects that were moved aside. */
    quarantined: number;
    quarantinedBytes: number;
  };
  /** Absent where nothing was built, or the builder is elsewhere. */
  buildCache?: BuildCacheUsage;
  /** Of SVC_STORAGE_SCRUB; absent where that never ran. */
  scrub?: ScrubStatus;
}

/** A damaged blob that the walk in the background found. */
export interface ScrubDamage {
  key: string;
  message: string;
  /** Absent: a push counted on it; it is kept from readers in its place. */
  movedTo?: string;
  /** True where a mirror's upstream has brought it again. */
  refetched: boolean;
  /** RFC 3339. */
  found: string;
}

/** How far the walk in the background is that reads every blob again. */
export interface ScrubStatus {
  /** When this round began; RFC 3339. */
  began: string;
  /** Absent: it is under way. */
  finished?: string;
  /** A round is done within so long. */
  withinMs: number;
  blobs: number;
  bytes: number;
  /** When the round began. */
  totalBytes: number;
  /** The newest, of earlier rounds too. */
  damaged: ScrubDamage[];
}

/** Something that `svc storage verify` found wrong. */
export interface StorageProblem {
  kind: "blob" | "manifest" | "tag" | "referrer";
  /** Of the object that is wrong. */
  key: string;
  message: string;
  /** Where it was moved to. */
  movedTo?: string;
}

export interface VerifyResult {
  blobs: number;
  bytes: number;
  manifests: number;
  tags: number;
  problems: number;
  /** What clients were free to do and may not have meant. */
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
    /** Looked at so far. */
    blobs: number;
    blobsDeleted: number;
  }
  | { type: "result"; result: GcResult }
  | { type: "error"; error: Problem };
