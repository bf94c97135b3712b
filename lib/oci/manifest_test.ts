import assert from "node:assert/strict";
import fc from "fast-check";
import { runs } from "../../test/fixtures/property.ts";
import { isDigest } from "./digest.ts";
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

Deno.test("media types are those of the table, not what objects have anyway", () => {
  for (const mediaType of ["constructor", "toString", "__proto__", "hasOwnProperty"]) {
    assert.equal(manifestKind(mediaType), undefined);
    assert.throws(() => parseManifest(encode({ ...image, mediaType })), {
      code: "manifest_invalid",
      message: /is none of/,
    });
    const odd = descriptor(mediaType, "d");
    const parsed = parseManifest(encode({ schemaVersion: 2, manifests: [odd] }));
    assert.deepEqual([parsed.manifests, parsed.blobs], [[], [odd]]);
  }
});

Deno.test("what is refused is not sent back whole", () => {
  const mediaType = "x".repeat(1_000_000);
  for (const declared of [undefined, MEDIA.manifest]) {
    assert.throws(
      () => parseManifest(encode({ ...image, mediaType }), declared),
      ({ message }: Error) => message.length < 1000,
    );
  }
});

Deno.test("documents of brackets are refused before they are read", () => {
  const nested = (depth: number) => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`);
  assert.equal(parseManifest(encode({ ...image, x: nested(99) })).kind, "image");
  const text = JSON.stringify({ ...image, x: nested(100) });
  const deep = { code: "manifest_invalid", message: /nested more than 100 deep/ };
  assert.throws(() => parseManifest(new TextEncoder().encode(text)), deep);
  assert.throws(() => parseManifest(new TextEncoder().encode("[".repeat(4_000_000))), deep);
  assert.throws(() => parseManifest(new TextEncoder().encode('{"a":'.repeat(800_000))), deep);
  const note = `${"[{".repeat(200)}\\"${"[".repeat(200)}`;
  assert.equal(parseManifest(encode({ ...image, annotations: { note } })).annotations?.note, note);
});

Deno.test("no document makes parseManifest fail in another way", () => {
  const odd = fc.oneof(fc.jsonValue(), fc.constantFrom(null, [], {}, config, [layer], 2, ""));
  const type = fc.oneof(fc.constantFrom<unknown>(MEDIA.manifest, MEDIA.index, undefined, 3), odd);
  const document = fc.record({
    schemaVersion: fc.constantFrom<unknown>(2, 2, 2, 1),
    mediaType: type,
    config: odd,
    layers: odd,
    manifests: odd,
    subject: odd,
    annotations: odd,
    artifactType: odd,
  }, { requiredKeys: ["schemaVersion"] });
  const text = new TextEncoder();
  const bytes = fc.oneof(
    document.map(encode),
    // Cut, and with a byte changed.
    fc.tuple(document.map(encode), fc.nat(), fc.nat(255)).map(([whole, at, byte]) => {
      const changed = whole.slice();
      changed[at % changed.length] = byte;
      return changed;
    }),
    fc.tuple(document.map(encode), fc.nat()).map(([all, at]) => all.subarray(0, at % all.length)),
    fc.uint8Array({ maxLength: 64 }),
    fc.stringMatching(/^[[\]{}":,\\a0 ]{0,40}$/).map((brackets) => text.encode(brackets)),
  );
  fc.assert(
    fc.property(bytes, fc.constantFrom(undefined, MEDIA.index, "x"), (document, declared) => {
      try {
        const parsed = parseManifest(document, declared);
        assert.ok(manifestKind(parsed.mediaType) === parsed.kind);
        for (const { digest, size } of [...parsed.blobs, ...parsed.manifests]) {
          assert.ok(isDigest(digest) && Number.isSafeInteger(size) && size >= 0);
        }
      } catch (error) {
        assert.equal((error as { code?: string }).code, "manifest_invalid");
      }
    }),
    runs(500),
  );
});
