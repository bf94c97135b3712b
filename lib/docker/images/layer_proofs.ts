/**
 * Whether an image's own source has the bytes of its layers. An engine takes a layer that it has by the layer's id,
 * wherever that comes from. Who may not read the engine's images could so name what is in them.
 */
import { SvcError } from "../../base/errors.ts";
import { Semaphore } from "../../base/mutex.ts";
import { decompressChunks } from "../../oci/compression.ts";
import { createDigester, parseDigest } from "../../oci/digest.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";
import { limited, unpackedTooLarge } from "../../oci/unpack_limit.ts";

/** Images that are remembered. */
const MOST = 1000;
/** Images that are read at once: unpacking takes a processor each, and a caller's image may be of any size. */
const AT_ONCE = 2;

export class LayerProofs {
  /** Complete names, with their manifests' digests. */
  readonly #proven = new Set<string>();
  readonly #turns = new Semaphore(AT_ONCE);
  readonly #maxUnpackedBytes: number | undefined;

  /** `maxUnpackedBytes`: of all layers of an image together; absent or 0: no limit. */
  constructor({ maxUnpackedBytes }: { maxUnpackedBytes?: number } = {}) {
    this.#maxUnpackedBytes = maxUnpackedBytes || undefined;
  }

  /**
   * Reads each layer once from its source, two images at a time; ends with the signal. Throws `digest_invalid` where its bytes are not those that the manifest
   * and the config name, `manifest_invalid` where these differ in their number, `blob_unknown`, `too_large`
   * beyond the limit, or what the source throws.
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
    const limit = this.#maxUnpackedBytes;
    await this.#turns.run(async () => {
      let unpacked = 0;
      for (const [index, layer] of layers.entries()) {
        const check = { index, layer, diffID: diffIDs[index], signal };
        unpacked += await requireLayer(image, {
          ...check,
          tooLarge: () => unpackedTooLarge(limit!, name),
          maxBytes: limit === undefined ? undefined : limit - unpacked,
        });
      }
    }, signal);
    this.#proven.add(key);
    for (const oldest of this.#proven) {
      if (this.#proven.size <= MOST) break;
      this.#proven.delete(oldest);
    }
  }
}

interface LayerCheck {
  index: number;
  layer: Descriptor;
  diffID: Digest;
  /** Unpacked; absent: no limit. */
  maxBytes?: number;
  tooLarge: () => Error;
  signal?: AbortSignal;
}

/** Returns the unpacked size. */
async function requireLayer(
  { name, source, repository }: ResolvedImage,
  { index, layer: { digest, size }, diffID, maxBytes, tooLarge, signal }: LayerCheck,
): Promise<number> {
  const cannot = `Cannot use ${name}: layer ${index + 1}`;
  const help = "the image is damaged or its config is wrong: push it again";
  const body = await source.get(repository, digest, { signal });
  if (!body) throw new SvcError("blob_unknown", `${cannot} (${digest}) is missing`);
  const packed = createDigester(parseDigest(digest).algorithm);
  const unpacked = createDigester(parseDigest(diffID).algorithm);
  const longer = () =>
    new SvcError("digest_invalid", `${cannot} is longer than the ${size} B of its manifest`, {
      help,
    });
  const read = async function* () {
    for await (const chunk of limited(body.stream(), size, longer)) {
      signal?.throwIfAborted();
      packed.update(chunk);
      yield chunk;
    }
  };
  let bytes = 0;
  for await (const chunk of limited(decompressChunks(read()), maxBytes, tooLarge)) {
    // A little that is packed may be much unpacked.
    signal?.throwIfAborted();
    unpacked.update(chunk);
    bytes += chunk.length;
  }
  for (const [expected, actual] of [[digest, packed.digest()], [diffID, unpacked.digest()]]) {
    if (expected === actual) continue;
    throw new SvcError("digest_invalid", `${cannot} has the digest ${actual}, not ${expected}`, {
      help,
    });
  }
  return bytes;
}
