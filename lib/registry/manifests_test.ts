import assert from "node:assert/strict";
import { digestOf } from "../oci/digest.ts";
import { MEDIA } from "../oci/types.ts";
import { bytesOf, digest, failure, registry } from "./fixture_test.ts";

Deno.test("a manifest is pushed by tag and read by tag and digest, byte for byte", async () => {
  const { send, image, pushManifest } = registry();
  const text = `${await image("a/b", "x")}\n  `;
  const pushed = await pushManifest("a/b", "v1", text);
  assert.equal(pushed.status, 201);
  assert.equal(pushed.headers.get("location"), `/v2/a/b/manifests/${digest(text)}`);
  assert.equal(pushed.headers.get("docker-content-digest"), digest(text));
  assert.equal(pushed.headers.get("oci-subject"), null);
  for (const reference of ["v1", digest(text)]) {
    const response = await send("GET", `/v2/a/b/manifests/${reference}`);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), MEDIA.manifest);
    assert.equal(response.headers.get("docker-content-digest"), digest(text));
    const etag = response.headers.get("etag")!;
    assert.equal(await response.text(), text);
    const head = await send("HEAD", `/v2/a/b/manifests/${reference}`);
    assert.equal(head.headers.get("content-length"), String(bytesOf(text).length));
    assert.equal(head.body, null);
    const headers = { "if-none-match": etag };
    assert.equal((await send("GET", `/v2/a/b/manifests/${reference}`, { headers })).status, 304);
  }
});

Deno.test("several tags in one push, sha512, and a digest that is not the body's", async () => {
  const { send, image, pushManifest } = registry();
  const text = await image("a", "x");
  const sha512 = digestOf(bytesOf(text), "sha512");
  const pushed = await pushManifest("a", sha512, text, "?tag=one&tag=two");
  assert.equal(pushed.status, 201);
  assert.equal(pushed.headers.get("oci-tag"), "one, two");
  assert.equal(pushed.headers.get("docker-content-digest"), sha512);
  const list = await (await send("GET", "/v2/a/tags/list")).json();
  assert.deepEqual(list, { name: "a", tags: ["one", "two"] });
  assert.equal(
    (await send("GET", "/v2/a/manifests/two")).headers.get("docker-content-digest"),
    sha512,
  );
  assert.equal(await failure(await pushManifest("a", digest("x"), text)), "400 DIGEST_INVALID");
  assert.equal(
    await failure(await pushManifest("a", "v1", text, "?tag=.x")),
    "400 MANIFEST_INVALID",
  );
  assert.equal((await send("GET", "/v2/a/manifests/v1")).status, 404);
});

Deno.test("manifests that are refused", async () => {
  const { send, image, pushManifest } = registry();
  const text = await image("a", "x");
  const document = JSON.parse(text);
  const push = async (body: unknown, reference = "v1") =>
    await failure(
      await pushManifest("a", reference, typeof body === "string" ? body : JSON.stringify(body)),
    );
  assert.equal(await push("{"), "400 MANIFEST_INVALID");
  assert.equal(await push("[]"), "400 MANIFEST_INVALID");
  assert.equal(await push({ ...document, schemaVersion: 1 }), "400 MANIFEST_INVALID");
  assert.equal(await push({ ...document, mediaType: MEDIA.index }), "400 MANIFEST_INVALID");
  assert.equal(await push({ ...document, layers: "x" }), "400 MANIFEST_INVALID");
  assert.equal(await push({ ...document, manifests: [] }), "400 MANIFEST_INVALID");
  assert.equal(await push({ ...document, annotations: { a: 1 } }), "400 MANIFEST_INVALID");
  const layer = { ...document.layers[0], digest: "sha256:1" };
  assert.equal(await push({ ...document, layers: [layer] }), "400 MANIFEST_INVALID");
  layer.digest = digest("nowhere");
  assert.equal(await push({ ...document, layers: [layer] }), "404 MANIFEST_BLOB_UNKNOWN");
  assert.equal(await push(text, ".bad"), "400 MANIFEST_INVALID");
  assert.equal(await push(text, "sha256:1"), "400 DIGEST_INVALID");
  assert.equal(await push(text + " ".repeat(4 * 1024 * 1024)), "413 MANIFEST_INVALID");
  const streamed = await send("PUT", "/v2/a/manifests/v1", {
    body: ReadableStream.from(Array.from({ length: 5 }, () => new Uint8Array(1024 * 1024))),
  });
  assert.equal(await failure(streamed), "413 MANIFEST_INVALID");
  assert.equal(await failure(await pushManifest("A", "v1", text)), "400 NAME_INVALID");
  assert.equal((await send("GET", "/v2/_catalog")).status, 200);
  assert.deepEqual(await (await send("GET", "/v2/_catalog")).json(), { repositories: [] });
});

Deno.test("the document's own media type counts where the request says none", async () => {
  const { send, image } = registry();
  const body = await image("a", "x", { mediaType: MEDIA.dockerManifest });
  const headers = { "content-type": "application/json; charset=utf-8" };
  assert.equal((await send("PUT", "/v2/a/manifests/v1", { body, headers })).status, 201);
  const response = await send("GET", "/v2/a/manifests/v1");
  assert.equal(response.headers.get("content-type"), MEDIA.dockerManifest);
  await response.body?.cancel();
});

Deno.test("manifests that are not there", async () => {
  const { send } = registry();
  for (const reference of ["v1", ".INVALID", digest("x")]) {
    for (const method of ["GET", "DELETE"]) {
      const response = await send(method, `/v2/a/manifests/${reference}`);
      assert.equal(await failure(response), "404 MANIFEST_UNKNOWN", `${method} ${reference}`);
    }
  }
  assert.equal(await failure(await send("GET", "/v2/a/manifests/sha256:z")), "400 DIGEST_INVALID");
});

Deno.test("deletes of tags and manifests", async () => {
  const { send, image, pushManifest } = registry();
  const text = await image("a", "x");
  await pushManifest("a", "v1", text, "?tag=v2");
  assert.equal((await send("DELETE", "/v2/a/manifests/v1")).status, 202);
  assert.equal((await send("GET", "/v2/a/manifests/v1")).status, 404);
  assert.equal((await send("HEAD", `/v2/a/manifests/${digest(text)}`)).status, 200);
  assert.equal((await send("DELETE", `/v2/a/manifests/${digest(text)}`)).status, 202);
  assert.equal((await send("HEAD", "/v2/a/manifests/v2")).status, 404);
  assert.equal((await send("HEAD", `/v2/a/manifests/${digest(text)}`)).status, 404);
});

Deno.test("an index with missing manifests is refused, or taken where that is set", async () => {
  const index = JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: [{ mediaType: MEDIA.manifest, digest: digest("elsewhere"), size: 9 }],
  });
  const push = ({ send }: ReturnType<typeof registry>, body: string, mediaType: string) =>
    send("PUT", "/v2/a/manifests/v1", { body, headers: { "content-type": mediaType } });
  const strict = registry();
  assert.equal(
    await failure(await push(strict, index, MEDIA.index)),
    "404 MANIFEST_BLOB_UNKNOWN",
  );
  const sparse = registry(strict.store, undefined, { sparse: "indexes" });
  assert.equal((await push(sparse, index, MEDIA.index)).status, 201);
  assert.equal(await (await sparse.send("GET", "/v2/a/manifests/v1")).text(), index);
  assert.equal(
    await failure(await sparse.send("GET", `/v2/a/manifests/${digest("elsewhere")}`)),
    "404 MANIFEST_UNKNOWN",
  );
  const list = index.replace(MEDIA.index, MEDIA.dockerList)
    .replace(MEDIA.manifest, MEDIA.dockerManifest);
  assert.equal((await push(sparse, list, MEDIA.dockerList)).status, 201);
  const image = JSON.parse(await sparse.image("a", "x"));
  image.layers[0].digest = digest("nowhere");
  const partial = JSON.stringify(image);
  assert.equal(
    await failure(await push(sparse, partial, MEDIA.manifest)),
    "404 MANIFEST_BLOB_UNKNOWN",
  );
  const all = registry(strict.store, undefined, { sparse: "all" });
  assert.equal((await push(all, index, MEDIA.index)).status, 201);
  assert.equal((await push(all, partial, MEDIA.manifest)).status, 201);
  assert.equal(await (await all.send("GET", "/v2/a/manifests/v1")).text(), partial);
  image.config.size++;
  assert.equal(
    await failure(await push(all, JSON.stringify(image), MEDIA.manifest)),
    "400 SIZE_INVALID",
  );
});

Deno.test("a manifest of as many references as fit", async () => {
  const { send, pushBlob, pushManifest } = registry();
  const layer = await pushBlob("a", "one layer, many times");
  const text = JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: { ...layer, mediaType: MEDIA.config },
    layers: Array.from({ length: 20_000 }, () => layer),
  });
  assert.equal((await pushManifest("a", "v1", text)).status, 201);
  assert.equal((await (await send("GET", "/v2/a/manifests/v1")).text()).length, text.length);
  const other = text.replace(`"size":${layer.size}}]`, `"size":${layer.size + 1}}]`);
  assert.equal(await failure(await pushManifest("a", "v2", other)), "400 SIZE_INVALID");
});
