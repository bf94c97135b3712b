import assert from "node:assert/strict";
import fc from "fast-check";
import { manifestKind, MAX_MANIFEST_BYTES, parseManifest } from "./manifest.ts";
import { MEDIA } from "./types.ts";

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const descriptor = (mediaType: string, letter: string, extra = {}) => ({
  mediaType,
  digest: `sha256:${letter.repeat(64)}`,
  size: 3,
  ...extra,
});
const config = descriptor(MEDIA.config, "c");
const layer = descriptor(MEDIA.layerGzip, "1");
const image = { schemaVersion: 2, mediaType: MEDIA.manifest, config, layers: [layer] };

Deno.test("an image manifest tells its blobs, subject and artifact type", () => {
  const subject = descriptor(MEDIA.manifest, "5");
  const foreign = descriptor(MEDIA.dockerForeignLayerGzip, "f", { urls: ["http://x/"] });
  const parsed = parseManifest(
    encode({ ...image, layers: [layer, foreign], subject, annotations: { a: "b" } }),
    MEDIA.manifest,
  );
  assert.equal(parsed.kind, "image");
  assert.deepEqual(parsed.blobs, [config, layer]);
  assert.deepEqual(parsed.manifests, []);
  assert.deepEqual(parsed.subject, subject);
  assert.equal(parsed.artifactType, MEDIA.config);
  assert.deepEqual(parsed.annotations, { a: "b" });
  const artifact = parseManifest(encode({ ...image, artifactType: "application/x" }));
  assert.equal(artifact.artifactType, "application/x");
});

Deno.test("an index tells manifests from other blobs", () => {
  const manifest = descriptor(MEDIA.dockerManifest, "a");
  const other = descriptor("application/octet-stream", "b");
  const parsed = parseManifest(encode({ schemaVersion: 2, manifests: [manifest, other] }));
  assert.equal(parsed.mediaType, MEDIA.index);
  assert.deepEqual(parsed.manifests, [manifest]);
  assert.deepEqual(parsed.blobs, [other]);
  assert.equal(parsed.artifactType, undefined);
  assert.equal(manifestKind(MEDIA.dockerList), "index");
  assert.equal(manifestKind(MEDIA.layerGzip), undefined);
});

Deno.test("what is not well formed is refused, and the message says where", () => {
  const cases: [unknown, RegExp, string?][] = [
    [null, /not a JSON object/],
    [{ ...image, schemaVersion: 1 }, /schemaVersion/],
    [{ ...image, mediaType: "text/plain" }, /media type text\/plain/],
    [image, /sent as .*index.* says of itself .*manifest/, MEDIA.index],
    [{ ...image, config: undefined }, /config: expected a descriptor/],
    [{ ...image, config: { ...config, size: -1 } }, /config\.size/],
    [{ ...image, config: { ...config, size: 1.5 } }, /config\.size/],
    [{ ...image, layers: [layer, { ...layer, digest: "x" }] }, /layers\[1\]\.digest/],
    [{ ...image, layers: [{ ...layer, mediaType: "" }] }, /layers\[0\]\.mediaType/],
    [{ ...image, layers: {} }, /layers: expected a list/],
    [{ ...image, subject: {} }, /subject\.mediaType/],
    [{ ...image, manifests: [] }, /no manifests/],
    [{ ...image, annotations: { a: 1 } }, /annotations/],
    [{ ...image, artifactType: 1 }, /artifactType/],
    [{ schemaVersion: 2, mediaType: MEDIA.index }, /manifests: expected a list/],
    [{ schemaVersion: 2, mediaType: MEDIA.index, manifests: [], layers: [] }, /no layers/],
  ];
  for (const [document, message, declared] of cases) {
    assert.throws(() => parseManifest(encode(document), declared), {
      code: "manifest_invalid",
      message,
    });
  }
  const notText = new Uint8Array([0x7b, 0xff, 0x7d]);
  assert.throws(() => parseManifest(notText), { code: "manifest_invalid", message: /not JSON/ });
  assert.throws(() => parseManifest(new Uint8Array(MAX_MANIFEST_BYTES + 1)), {
    code: "manifest_too_large",
  });
});

Deno.test("no document makes parseManifest fail in another way", () => {
  const odd = fc.oneof(fc.jsonValue(), fc.constantFrom(null, [], {}, config, [layer], 2, ""));
  const document = fc.record({
    schemaVersion: fc.constantFrom<unknown>(2, 1),
    mediaType: fc.constantFrom<unknown>(MEDIA.manifest, MEDIA.index, undefined, 3),
    config: odd,
    layers: odd,
    manifests: odd,
    subject: odd,
    annotations: odd,
  }, { requiredKeys: [] });
  fc.assert(
    fc.property(document, (value) => {
      try {
        parseManifest(encode(value));
      } catch (error) {
        assert.equal((error as { code?: string }).code, "manifest_invalid");
      }
    }),
    { numRuns: 300 },
  );
});
