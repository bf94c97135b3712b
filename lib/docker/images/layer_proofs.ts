/**
 * Whether an image's own source has the bytes of its layers. An engine takes a layer that it has by the layer's id,
 * wherever that comes from. Who may not read the engine's images could so name what is in them.
 */
import { SvcError } from "../../base/errors.ts";
import { decompressChunks } from "../../oci/compression.ts";
import { createDigester, parseDigest } from "../../oci/digest.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { Digest } from "../../oci/types.ts";

/** Images that are remembered. */
const MOST = 1000;

export class LayerProofs {
  /** Complete names, with their manifests' digests. */
  readonly #proven = new Set<string>();

  /**
   * Reads each layer once from its source. Throws `digest_invalid` where its bytes are not those that the manifest
   * and the config name, `manifest_invalid` where these differ in their number, `blob_unknown`, or what the
   * source throws.
   */
  async require(image: ResolvedImage, signal?: AbortSignal): Promise<void> {
    const { name, manifest: { layers }, config: { rootfs } } = image;
    const key = `${name} ${image.descriptor.digest}`;
    if (this.#proven.has(key)) return;
    const diffIDs = rootfs?.diff_ids ?? [];
    if (layers.length !== diffIDs.length) {
      throw new SvcError(
        "manifest_invalid",
        `Cannot use ${name}: it has ${layers.length} layers, but its config names ${diffIDs.length}`,
      );
    }
    for (const [index, { digest }] of layers.entries()) {
      await requireLayer(image, index, digest, diffIDs[index], signal);
    }
    this.#proven.add(key);
    for (const oldest of this.#proven) {
      if (this.#proven.size <= MOST) break;
      this.#proven.delete(oldest);
    }
  }
}

async function requireLayer(
  { name, source, repository }: ResolvedImage,
  index: number,
  digest: Digest,
  diffID: Digest,
  signal?: AbortSignal,
): Promise<void> {
  const cannot = `Cannot use ${name}: layer ${index + 1}`;
  const body = await source.get(repository, digest, { signal });
  if (!body) throw new SvcError("blob_unknown", `${cannot} (${digest}) is missing`);
  const packed = createDigester(parseDigest(digest).algorithm);
  const unpacked = createDigester(parseDigest(diffID).algorithm);
  const read = async function* () {
    for await (const chunk of body.stream()) {
      signal?.throwIfAborted();
      packed.update(chunk);
      yield chunk;
    }
  };
  for await (const chunk of decompressChunks(read())) unpacked.update(chunk);
  for (const [expected, actual] of [[digest, packed.digest()], [diffID, unpacked.digest()]]) {
    if (expected === actual) continue;
    throw new SvcError("digest_invalid", `${cannot} has the digest ${actual}, not ${expected}`, {
      help: "the image is damaged or its config is wrong: push it again",
    });
  }
}
