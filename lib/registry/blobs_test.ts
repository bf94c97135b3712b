import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../base/log.ts";
import type { Digest } from "../oci/types.ts";
import { createContentStore } from "../store/content.ts";
import { bytesOf, digest, failure, registry } from "./fixture_test.ts";

Deno.test("GET /v2/ says what this is", async () => {
  const { send } = registry();
  for (const path of ["/v2/", "/v2"]) {
    const response = await send("GET", path);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("docker-distribution-api-version"), "registry/2.0");
    assert.deepEqual(await response.json(), {});
  }
});

Deno.test("blob GET and HEAD", async () => {
  const { send, pushBlob } = registry();
  await pushBlob("a/b", "hello world");
  const path = `/v2/a/b/blobs/${digest("hello world")}`;
  const response = await send("GET", path);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-length"), "11");
  assert.equal(response.headers.get("docker-content-digest"), digest("hello world"));
  assert.equal(response.headers.get("content-type"), "application/octet-stream");
  assert.equal(await response.text(), "hello world");
  const head = await send("HEAD", path);
  assert.equal(head.status, 200);
  assert.equal(head.headers.get("content-length"), "11");
  assert.equal(head.body, null);
  const etag = response.headers.get("etag")!;
  assert.equal((await send("GET", path, { headers: { "if-none-match": etag } })).status, 304);
  assert.equal(
    (await send("HEAD", path, { headers: { "if-none-match": `"x", W/${etag}` } })).status,
    304,
  );
  const other = await send("GET", path, { headers: { "if-none-match": '"x"' } });
  assert.equal(await other.text(), "hello world");
});

Deno.test("blob GET is sent to the storage where that is wanted and can be", async () => {
  const store = createContentStore(openMemStore(), { log: silent });
  const asked: number[] = [];
  const signedUrl = (found: Digest, { seconds }: { seconds: number }) => {
    asked.push(seconds);
    return Promise.resolve(
      found === digest("here") ? `https://storage.test/${found}?signature` : undefined,
    );
  };
  const served = { ...store, signedUrl };
  const { send, pushBlob } = registry(store, { reader: served, writer: store }, {
    redirectBlobs: true,
  });
  await pushBlob("a", "here");
  await pushBlob("a", "cannot be signed");
  const path = `/v2/a/blobs/${digest("here")}`;
  for (const headers of [undefined, { range: "bytes=1-2" }]) {
    const response = await send("GET", path, { headers });
    assert.equal(response.status, 307);
    assert.equal(
      response.headers.get("location"),
      `https://storage.test/${digest("here")}?signature`,
    );
    assert.equal(response.headers.get("cache-control"), "no-store");
    assert.equal(response.headers.get("docker-content-digest"), digest("here"));
    assert.equal(await response.text(), "");
  }
  assert.deepEqual(asked, [1200, 1200]);
  assert.equal((await send("HEAD", path)).status, 200);
  assert.equal((await send("GET", path, { headers: { "if-none-match": "*" } })).status, 304);
  const other = await send("GET", `/v2/a/blobs/${digest("cannot be signed")}`);
  assert.equal(await other.text(), "cannot be signed");
  assert.equal(await failure(await send("GET", `/v2/a/blobs/${digest("x")}`)), "404 BLOB_UNKNOWN");
  const plain = registry(store, { reader: served });
  assert.equal(await (await plain.send("GET", path)).text(), "here");
  const without = registry(store, undefined, { redirectBlobs: true });
  assert.equal(await (await without.send("GET", path)).text(), "here");
});

Deno.test("blob ranges", async () => {
  const { send, pushBlob } = registry();
  await pushBlob("a", "0123456789");
  const path = `/v2/a/blobs/${digest("0123456789")}`;
  const get = (range: string, extra = {}) => send("GET", path, { headers: { range, ...extra } });
  const part = await get("bytes=2-4");
  assert.equal(part.status, 206);
  assert.equal(part.headers.get("content-range"), "bytes 2-4/10");
  assert.equal(part.headers.get("content-length"), "3");
  assert.equal(await part.text(), "234");
  assert.equal(await (await get("bytes=-2")).text(), "89");
  assert.equal(await (await get("bytes=8-")).text(), "89");
  const beyond = await get("bytes=10-");
  assert.equal(beyond.headers.get("content-range"), "bytes */10");
  assert.equal(await failure(beyond), "416 BLOB_UPLOAD_INVALID");
  const several = await get("bytes=0-1,3-4");
  assert.equal(several.status, 200);
  assert.equal(await several.text(), "0123456789");
  const stale = await get("bytes=0-1", { "if-range": '"other"' });
  assert.equal(stale.status, 200);
  await stale.body?.cancel();
  assert.equal((await send("HEAD", path, { headers: { range: "bytes=0-1" } })).status, 206);
});

Deno.test("blobs that are not there, bad digests and bad names", async () => {
  const { send } = registry();
  assert.equal(await failure(await send("GET", `/v2/a/blobs/${digest("no")}`)), "404 BLOB_UNKNOWN");
  assert.equal(
    await failure(await send("DELETE", `/v2/a/blobs/${digest("no")}`)),
    "404 BLOB_UNKNOWN",
  );
  assert.equal(await failure(await send("GET", "/v2/a/blobs/sha256:12")), "400 DIGEST_INVALID");
  assert.equal(await failure(await send("GET", `/v2/A/blobs/${digest("")}`)), "400 NAME_INVALID");
  const long = `${"a/".repeat(128)}a`;
  assert.equal(
    await failure(await send("GET", `/v2/${long}/blobs/${digest("")}`)),
    "400 NAME_INVALID",
  );
  const response = await send("GET", `/v2/a%2F..%2Fb/blobs/${digest("")}`);
  assert.equal(await failure(response), "400 NAME_INVALID");
});

Deno.test("blob DELETE: 202, then gone; refused while a manifest uses it", async () => {
  const { send, pushBlob, image, pushManifest } = registry();
  await pushBlob("a", "loose");
  const path = `/v2/a/blobs/${digest("loose")}`;
  assert.equal((await send("DELETE", path)).status, 202);
  assert.equal((await send("GET", path)).status, 404);
  await pushManifest("a", "v1", await image("a", "x"));
  const used = `/v2/a/blobs/${digest("layer x")}`;
  assert.equal(await failure(await send("DELETE", used)), "405 DENIED");
  assert.equal((await send("HEAD", used)).status, 200);
});

Deno.test("an error says what, why and what to do, and an internal one shows nothing", async () => {
  const { store, send } = registry();
  const { errors: [error] } = await (await send("GET", `/v2/a/blobs/${digest("no")}`)).json();
  assert.match(
    error.message,
    /^Cannot find blob sha256:\w+ in a: not pushed \(push the blob first\)$/,
  );
  assert.deepEqual(error.detail, { digest: digest("no") });
  store.stat = () => Promise.reject(new Error("/secret/path is broken"));
  const response = await send("GET", `/v2/a/blobs/${digest("no")}`);
  const text = await response.text();
  assert.equal(response.status, 500);
  assert.ok(!text.includes("secret"), text);
  assert.ok(bytesOf(text).length < 200);
});
