/** Checks that a manifest's references exist. */
import { SvcError } from "../base/errors.ts";
import type { ParsedManifest } from "../oci/manifest.ts";
import type { Digest } from "../oci/types.ts";
import type { PublishOptions } from "./publication.ts";

/** Existence checks that run at once for one manifest. */
const CHECKS = 16;

export interface ReferenceOptions extends Pick<PublishOptions, "sparse"> {
  /** Undefined: there is no such blob. */
  blob(digest: Digest): Promise<{ size: number } | undefined>;
  /** False: the repository has no such manifest. */
  manifest(digest: Digest): Promise<boolean>;
  /** False: the blob, whose size is another one than the manifest states, is known to be damaged. */
  sound?(digest: Digest): Promise<boolean>;
}

/**
 * False where references are missing and the manifest may be sparse; also false where nothing is checked
 * (`sparse: true`, a mirror's manifest). Any other missing reference throws `manifest_blob_unknown`. A blob of
 * another size than the manifest states throws `size_invalid`.
 */
export async function checkReferences(
  manifest: ParsedManifest,
  { sparse, ...lookups }: ReferenceOptions,
): Promise<boolean> {
  if (sparse === true) return false;
  const lenient = sparse === "all" || sparse === "indexes" && manifest.kind === "index";
  let complete = true;
  const named = [
    ...manifest.blobs.map((item) => ({ item, isBlob: true })),
    ...manifest.manifests.map((item) => ({ item, isBlob: false })),
  ];
  // Each reference is checked once, however often the manifest names it.
  const keyOf = ({ item, isBlob }: typeof named[0]) => `${isBlob} ${item.digest} ${item.size}`;
  const wanted = [...new Map(named.map((one) => [keyOf(one), one])).values()];
  for (let at = 0; at < wanted.length; at += CHECKS) {
    const part = wanted.slice(at, at + CHECKS);
    const found = await Promise.all(
      part.map(async ({ item: { digest, size }, isBlob }) => {
        if (isBlob) return await lookups.blob(digest);
        return await lookups.manifest(digest) ? { size } : undefined;
      }),
    );
    for (const [index, { item, isBlob }] of part.entries()) {
      const info = found[index];
      const other = isBlob && info !== undefined && info.size !== item.size;
      // Where the sizes differ and the stored blob is the wrong one, the blob counts as missing.
      const there = info && (!other || await lookups.sound?.(item.digest) !== false);
      if (!there && lenient) complete = false;
      else if (!there) {
        throw new SvcError(
          "manifest_blob_unknown",
          `Cannot accept the manifest: ${isBlob ? "blob" : "manifest"} ${item.digest} is not in ` +
            `the registry`,
          { detail: { digest: item.digest } },
        );
      } else if (other) {
        throw new SvcError(
          "size_invalid",
          `Cannot accept the manifest: it gives ${item.digest} ${item.size} bytes, ` +
            `the blob has ${info.size}`,
          { detail: { digest: item.digest, size: info.size } },
        );
      }
    }
  }
  return complete;
}
