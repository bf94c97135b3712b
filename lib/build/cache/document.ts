/**
 * A build cache outside its machine: an OCI image manifest whose layers are the steps' layers and archives of
 * cache mounts, and whose config is the document below. An inline cache stands in an image's config instead,
 * and its layers are the image's layers.
 */
import { isDigest } from "../../oci/digest.ts";
import type { Digest } from "../../oci/types.ts";

export const CACHE_ARTIFACT = "application/vnd.svc.buildcache.v1";
export const CACHE_CONFIG = "application/vnd.svc.buildcache.config.v1+json";
/** The member of an image config that holds an inline cache. */
export const INLINE_MEMBER = "svc.buildcache.v1";

export interface CacheDocument {
  version: 1;
  records: CachedStep[];
  /** See lib/build/solve/records.ts. */
  links: { from: string; to: string }[];
  mounts?: CachedMount[];
}

export interface CachedStep {
  /** sha256 in hex. */
  key: string;
  /** Milliseconds since 1970. */
  created: number;
  /** Diff id of the layer; it identifies the layer. */
  diffID: Digest;
  /** Digest of the packed layer; absent in an inline cache, where the image's manifest has it. */
  digest?: Digest;
  /** Key of the packing (lib/build/export/packer_wire.ts). */
  packing: string;
}

export interface CachedMount {
  id: string;
  /** Folder of the cache mount: "shared", or the first private one. */
  folder: MountFolder;
  /** Digest of the packed archive. */
  digest: Digest;
  mode: number;
  uid: number;
  gid: number;
}

export const MOUNT_FOLDERS = ["shared", "private-0"] as const;
export type MountFolder = typeof MOUNT_FOLDERS[number];

const isKey = (value: unknown): value is string =>
  typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0;
/** The end of the year 9999, the last time that an image's config can hold. */
const LAST = 253_402_300_799_999;
const isPacking = (value: unknown): value is string =>
  typeof value === "string" && /^(gzip|zstd)(-blocks)?-\d{1,2}$|^uncompressed$/.test(value);

function isStep(value: unknown): value is CachedStep {
  const step = value as Partial<CachedStep> | null;
  return isKey(step?.key) && isCount(step.created) && step.created <= LAST &&
    isDigest(String(step.diffID)) &&
    isPacking(step.packing) && (step.digest === undefined || isDigest(String(step.digest)));
}

function isMount(value: unknown): value is CachedMount {
  const mount = value as Partial<CachedMount> | null;
  return typeof mount?.id === "string" && MOUNT_FOLDERS.includes(mount.folder!) &&
    isDigest(String(mount.digest)) && isCount(mount.mode) &&
    isCount(mount.uid) && isCount(mount.gid);
}

/** The usable part of a document; empty for a foreign or damaged one. */
export function readCacheDocument(value: unknown): CacheDocument | undefined {
  const document = value as Partial<CacheDocument> | null;
  if (document?.version !== 1) return undefined;
  const list = (member: unknown): unknown[] => Array.isArray(member) ? member : [];
  return {
    version: 1,
    records: list(document.records).filter(isStep),
    links: list(document.links).filter((link): link is CacheDocument["links"][0] => {
      const { from, to } = (link ?? {}) as { from?: unknown; to?: unknown };
      return isKey(from) && isKey(to);
    }),
    mounts: list(document.mounts).filter(isMount),
  };
}

/** Sorts the entries, so that the same steps give the same document. */
export function sortedDocument(document: CacheDocument): CacheDocument {
  const by = <T>(key: (item: T) => string) => (a: T, b: T) =>
    key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0;
  return {
    version: 1,
    records: document.records.toSorted(by(({ key }) => key)),
    links: document.links.toSorted(by(({ from }) => from)),
    ...(document.mounts &&
      { mounts: document.mounts.toSorted(by(({ id, folder }) => `${folder} ${id}`)) }),
  };
}
