/** Checks that a manifest's references exist. */
import { SvcError } from "../base/errors.ts";
import type { ParsedManifest } from "../oci/manifest.ts";
import type { BlobPlaces } from "./blob_places.ts";
import type { PublishOptions } from "./content_store.ts";
import { blobKey, manifestKey } from "./keys.ts";
import type { CallOptions, ObjectStore } from "./object_store.ts";

/** Existence checks that run at once for one manifest. */
const CHECKS = 16;

export interface ReferenceOptions extends CallOptions, Pick<PublishOptions, "sparse"> {
  objects: ObjectStore;
  places: BlobPlaces;
}

/**
 * False where references are missing and the manifest may be sparse; also false where nothing is checked
 * (`sparse: true`, a mirror's manifest). Any other missing reference throws `manifest_blob_unknown`. A blob of
 * another size than the manifest states throws `size_invalid`.
 */
export async function checkReferences(
  repository: string,
  manifest: ParsedManifest,
  { objects, places, sparse, signal }: ReferenceOptions,
): Promise<boolean> {
  if (sparse === true) return false;
  const lenient = sparse === "all" || sparse === "indexes" && manifest.kind === "index";
  let complete = true;
  const named = [
    ...manifest.blobs.map((item) => ({ item, key: blobKey(item.digest), isBlob: true })),
    ...manifest.manifests.map((item) => ({
      item,
      key: manifestKey(repository, item.digest),
      isBlob: false,
    })),
  ];
  // Each reference is checked once, however often the manifest names it.
  const wanted = [...new Map(named.map((one) => [`${one.key} ${one.item.size}`, one])).values()];
  for (let at = 0; at < wanted.length; at += CHECKS) {
    const part = wanted.slice(at, at + CHECKS);
    const found = await Promise.all(
      part.map(({ item, key, isBlob }) =>
        isBlob ? places.stat(item.digest, { signal }) : objects.stat(key, { signal })
      ),
    );
    for (const [index, { item, isBlob }] of part.entries()) {
      const info = found[index];
      const other = isBlob && info !== undefined && info.size !== item.size;
      // Where the sizes differ and the stored blob is the wrong one, the blob counts as missing.
      const there = info && (!other || await places.sound(item.digest, { signal }));
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
