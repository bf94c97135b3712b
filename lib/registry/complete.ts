/**
 * Pushes of manifests some of whose blobs are elsewhere. Clients leave out blobs that a HEAD reported as
 * present, and a mirror or a union also reports blobs that only its other side has.
 */
import { SvcError } from "../base/errors.ts";
import type { Digest } from "../oci/types.ts";

/** References that one push may have copied here for it. */
const MAX_BROUGHT = 1000;

/**
 * Runs `publish`. Where references are missing, `bring` copies them here, and `publish` runs again. Throws the
 * refusal of `publish` where `bring` is false.
 */
export async function publishComplete<T>(
  publish: () => Promise<T>,
  bring: (digest: Digest) => Promise<boolean>,
): Promise<T> {
  const brought = new Set<Digest>();
  for (;;) {
    try {
      return await publish();
    } catch (error) {
      const digest = error instanceof SvcError && error.code === "manifest_blob_unknown"
        ? error.detail?.digest as Digest
        : undefined;
      if (digest === undefined || brought.has(digest) || brought.size === MAX_BROUGHT) throw error;
      brought.add(digest);
      if (!await bring(digest)) throw error;
    }
  }
}
