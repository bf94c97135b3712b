/** What a manifest is on its way into the store, and what stands there of it. */
import { SvcError } from "../base/errors.ts";
import { digestOf, parseDigest } from "../oci/digest.ts";
import { type ParsedManifest, parseManifest } from "../oci/manifest.ts";
import { isTag } from "../oci/reference.ts";
import type { Descriptor, Digest } from "../oci/types.ts";
import { blobKey, manifestKey } from "./keys.ts";
import type { CallOptions } from "./object_store.ts";

export interface PublishOptions extends CallOptions {
  tags?: string[];
  /** The digest that the bytes must have. */
  digest?: Digest;
  /**
   * Accepts a manifest whose references are missing: a mirror fetches them when they are asked for. "indexes":
   * only indexes, whose manifests may be elsewhere or never come; images must be whole. "all": images too.
   */
  sparse?: boolean | "indexes" | "all";
}

/** Stored under `manifests/<name>/<digest>`; the bytes are a blob. */
export interface ManifestRecord {
  mediaType: string;
  size: number;
  subject?: Digest;
  /** Digests of the blobs and manifests that it refers to: deletes and collections ask for them. */
  references: Digest[];
  /** True where some references were missing when it was published, and need not come. */
  sparse?: boolean;
}

/** What one push of a manifest writes. */
export interface Publication {
  repository: string;
  manifest: ParsedManifest;
  bytes: Uint8Array;
  digest: Digest;
  descriptor: Descriptor;
  record: ManifestRecord;
  /** Keys that a client was told exist: they are leased until the record names them. */
  leased: string[];
}

/** Throws `manifest_invalid`, or `digest_invalid` where the bytes have another digest than was promised. */
export function checked(
  repository: string,
  mediaType: string | undefined,
  bytes: Uint8Array,
  { tags = [], digest: promised }: PublishOptions,
): Publication {
  const manifest = parseManifest(bytes, mediaType);
  const digest = digestOf(bytes, promised ? parseDigest(promised).algorithm : undefined);
  if (promised && promised !== digest) {
    throw new SvcError(
      "digest_invalid",
      `Cannot accept manifest ${promised}: the bytes have the digest ${digest}`,
    );
  }
  for (const tag of tags) {
    if (isTag(tag)) continue;
    throw new SvcError(
      "manifest_invalid",
      `Cannot tag ${digest}: ${JSON.stringify(tag.slice(0, 160))} is not a tag`,
    );
  }
  const { subject, blobs, manifests } = manifest;
  const size = bytes.length;
  const references = [...new Set([...blobs, ...manifests].map((item) => item.digest))];
  return {
    ...{ repository, manifest, bytes, digest },
    descriptor: { mediaType: manifest.mediaType, digest, size },
    record: {
      mediaType: manifest.mediaType,
      size,
      ...(subject && { subject: subject.digest }),
      references,
    },
    leased: [
      ...references.map(blobKey),
      ...manifests.map((item) => manifestKey(repository, item.digest)),
    ],
  };
}
