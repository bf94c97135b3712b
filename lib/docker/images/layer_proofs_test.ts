import assert from "node:assert/strict";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { digestOf } from "../../oci/digest.ts";
import type { ImageSource } from "../../oci/image.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import { type Digest, MEDIA } from "../../oci/types.ts";
import { LayerProofs } from "./layer_proofs.ts";
import { encode } from "./testing.ts";

/** An image of these layers; `reads` has the digests that were asked for. */
function image(layers: Uint8Array[], packed = layers) {
  const reads: Digest[] = [];
  const blobs = new Map(packed.map((bytes) => [digestOf(bytes), bytes]));
  const get: ImageSource["get"] = (_repository, digest) => {
    reads.push(digest);
    const bytes = blobs.get(digest);
    const stream = () => ReadableStream.from([bytes!.subarray(0, 2), bytes!.subarray(2)]);
    return Promise.resolve(bytes && { size: bytes.length, stream });
  };
  const descriptor = {
    mediaType: MEDIA.manifest,
    digest: digestOf(encode(layers.length)),
    size: 1,
  };
  return {
    reads,
    blobs,
    image: {
      name: "registry.test/app:v1",
      repository: "app",
      source: { get } as ImageSource,
      descriptor,
      manifest: {
        layers: packed.map((bytes) => ({
          mediaType: "",
          digest: digestOf(bytes),
          size: bytes.length,
        })),
      },
      config: { rootfs: { type: "layers", diff_ids: layers.map((bytes) => digestOf(bytes)) } },
      apart: true,
    } as unknown as ResolvedImage,
  };
}

const LAYERS = [encode("the lower layer"), encode("the upper layer")];

Deno.test("layers: a source that has their bytes is asked for them once, however they are packed", async () => {
  const proofs = new LayerProofs();
  const packs = [(bytes: Uint8Array) => bytes, gzipSync, zstdCompressSync];
  for (const [index, pack] of packs.entries()) {
    const { image: whole, reads } = image(
      LAYERS,
      LAYERS.map((layer) => Uint8Array.from(pack(layer))),
    );
    const named = { ...whole, name: `registry.test/${index}` };
    await proofs.require(named);
    await proofs.require(named);
    assert.equal(reads.length, 2);
  }
  await proofs.require(image([]).image);
});

Deno.test("layers: their ids alone prove nothing", async () => {
  const proofs = new LayerProofs();
  const named = image(LAYERS);
  named.blobs.clear();
  await assert.rejects(proofs.require(named.image), { code: "blob_unknown", message: /layer 1 / });
  // Other bytes under the id, and other bytes than the config's under an id of their own.
  const [lower, upper] = LAYERS.map((layer) => digestOf(layer));
  const lying = image(LAYERS);
  lying.blobs.set(upper, encode("mine"));
  await assert.rejects(proofs.require(lying.image), {
    code: "digest_invalid",
    message: /layer 2 /,
  });
  const own = image(LAYERS, [LAYERS[0], encode("mine")]);
  await assert.rejects(proofs.require(own.image), { code: "digest_invalid", message: /layer 2 / });
  const fewer = image(LAYERS, [LAYERS[0]]);
  await assert.rejects(proofs.require(fewer.image), { code: "manifest_invalid" });
  assert.deepEqual(fewer.reads, []);
  // What failed is not remembered.
  lying.blobs.set(upper, LAYERS[1]);
  await proofs.require(lying.image);
  assert.ok(lying.reads.includes(lower));
});

Deno.test("layers: reading ends where the manifest's size, the server's limit or the caller ends it", async () => {
  const zeros = new Uint8Array(8 << 20);
  const bomb = () => image([zeros, LAYERS[0]], [Uint8Array.from(gzipSync(zeros)), LAYERS[0]]);
  const few = new LayerProofs({ maxUnpackedBytes: zeros.length - 1 });
  await assert.rejects(few.require(bomb().image), {
    code: "too_large",
    message: /more than 8.0 MiB unpacked/,
  });
  // The limit is for all layers together.
  const both = zeros.length + LAYERS[0].length;
  const almost = new LayerProofs({ maxUnpackedBytes: both - 1 });
  await assert.rejects(almost.require(bomb().image), { code: "too_large" });
  await new LayerProofs({ maxUnpackedBytes: both }).require(bomb().image);

  // A source that never ends.
  const endless = image([LAYERS[0]]);
  let given = 0;
  endless.image.source.get = () => {
    const chunks = async function* () {
      for (; given < 1000; given++) yield LAYERS[0];
    };
    return Promise.resolve({ size: 1, stream: () => ReadableStream.from(chunks()) });
  };
  await assert.rejects(new LayerProofs().require(endless.image), {
    code: "digest_invalid",
    message: /layer 1 is longer than/,
  });
  assert.ok(given < 10);
});

Deno.test("layers: two images are read at once; who waits can leave", async () => {
  const proofs = new LayerProofs();
  const open = Promise.withResolvers<void>();
  const slow = (name: string) => {
    const one = { ...image(LAYERS), name };
    const { get } = one.image.source;
    one.image.source.get = async (...asked) => {
      const found = await get(...asked);
      await open.promise;
      return found;
    };
    return { ...one, image: { ...one.image, name } };
  };
  const images = ["a", "b", "c", "d"].map(slow);
  const leaving = new AbortController();
  const work = images.map((one, at) =>
    proofs.require(one.image, at === 2 ? leaving.signal : undefined)
  );
  leaving.abort(new Error("gone"));
  await assert.rejects(work[2], /gone/);
  assert.deepEqual(images.map(({ reads }) => reads.length), [1, 1, 0, 0]);
  open.resolve();
  await Promise.all([work[0], work[1], work[3]]);
  assert.deepEqual(images.map(({ reads }) => reads.length), [2, 2, 0, 2]);
  // Between the chunks of what is being read, too.
  const ended = AbortSignal.abort(new Error("gone"));
  await assert.rejects(proofs.require({ ...image(LAYERS).image, name: "e" }, ended), /gone/);
});
