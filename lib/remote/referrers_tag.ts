/**
 * The referrers of a registry without the referrers API (OCI Distribution Specification 1.1, "Referrers Tag
 * Schema"): an index under a tag made from the subject's digest. The pushing client keeps the index up to
 * date.
 */
import { parseDigest } from "../oci/digest.ts";
import { MAX_MANIFEST_BYTES, parseManifest } from "../oci/manifest.ts";
import { type Descriptor, type Digest, type Index, MEDIA } from "../oci/types.ts";

/** The tag that holds the referrers of `digest`. */
export function referrersTag(digest: Digest): string {
  const { algorithm, hex } = parseDigest(digest);
  return `${algorithm}-${hex}`.slice(0, 128);
}

/**
 * The manifest's subject; undefined too where the manifest cannot be parsed, since the registry has accepted
 * it.
 */
export function subjectOf(mediaType: string, bytes: Uint8Array): Digest | undefined {
  if (bytes.length > MAX_MANIFEST_BYTES) return undefined;
  try {
    return parseManifest(bytes, mediaType).subject?.digest;
  } catch {
    return undefined;
  }
}

/** The index with the referrer added; undefined where the index has it already. */
export function withReferrer(
  before: Uint8Array | undefined,
  mediaType: string,
  bytes: Uint8Array,
  digest: Digest,
): Uint8Array | undefined {
  const index: Index = before
    ? JSON.parse(new TextDecoder().decode(before))
    : { schemaVersion: 2, mediaType: MEDIA.index, manifests: [] };
  const manifests = Array.isArray(index.manifests) ? index.manifests : [];
  if (manifests.some((entry) => entry.digest === digest)) return undefined;
  const { artifactType, annotations } = parseManifest(bytes, mediaType);
  const entry: Descriptor = {
    mediaType,
    digest,
    size: bytes.length,
    ...(artifactType && { artifactType }),
    ...(annotations && { annotations }),
  };
  return new TextEncoder().encode(
    JSON.stringify({ ...index, manifests: [...manifests, entry] }),
  );
}
