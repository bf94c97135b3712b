/** A registry that is a view, or a store with a view behind it, through its rows. */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../base/log.ts";
import { MEDIA } from "../oci/types.ts";
import { createContentStore } from "../store/content.ts";
import { bytesOf, digest, failure, pages, registry } from "./fixture_test.ts";
import { unionView } from "./union.ts";

const ZERO = "sha256:" + "0".repeat(64);

/** A store of its own, and one that is only looked at. */
function fixture() {
  const own = createContentStore(openMemStore(), { log: silent });
  const engine = registry();
  return { engine, own, both: registry(own, unionView(own, engine.store)) };
}

Deno.test("a registry without a writer: every way to change it is 405, and nothing of it is read", async () => {
  const engine = registry();
  const text = await engine.image("app", "one");
  await engine.pushManifest("app", "v1", text);
  const view = registry(engine.store, { reader: engine.store });
  const rows: [string, string, string][] = [
    ["POST", "/v2/app/blobs/uploads/", ""],
    ["POST", "/v2/app/blobs/uploads", ""],
    ["POST", `/v2/app/blobs/uploads/?mount=${ZERO}&from=other`, ""],
    ["POST", "/v2/app/blobs/uploads/?digest=nonsense", ""],
    ["GET", "/v2/app/blobs/uploads/1", ""],
    ["PATCH", "/v2/app/blobs/uploads/1", ""],
    ["PUT", `/v2/app/blobs/uploads/1?digest=${ZERO}`, ""],
    ["DELETE", "/v2/app/blobs/uploads/1", ""],
    ["DELETE", `/v2/app/blobs/${digest("layer one")}`, "GET, HEAD"],
    ["PUT", "/v2/app/manifests/v2", "GET, HEAD"],
    ["DELETE", "/v2/app/manifests/v1", "GET, HEAD"],
    ["DELETE", `/v2/app/manifests/${digest(text)}`, "GET, HEAD"],
  ];
  for (const [method, path, allow] of rows) {
    const body = method === "PUT" || method === "PATCH" ? text : undefined;
    const response = await view.send(method, path, { body });
    assert.equal(response.headers.get("allow"), allow, path);
    const { errors: [{ code, message }] } = await response.clone().json();
    assert.equal(`${response.status} ${code}`, "405 UNSUPPORTED", `${method} ${path}`);
    assert.match(message, /SVC_REGISTRY_SOURCE=off, or with --storage/);
    assert.equal(await failure(response), "405 UNSUPPORTED");
  }
  assert.equal((await view.send("GET", "/v2/app/manifests/v1")).status, 200);
  assert.equal((await view.send("HEAD", `/v2/app/blobs/${digest("layer one")}`)).status, 200);
});

Deno.test("union: the own store's tag wins, the view's is there without it", async () => {
  const { engine, both } = fixture();
  const theirs = await engine.image("app", "theirs");
  await engine.pushManifest("app", "v1", theirs);
  const resolved = async () =>
    (await both.send("HEAD", "/v2/app/manifests/v1")).headers.get("docker-content-digest");
  assert.equal(await resolved(), digest(theirs));
  const ours = await both.image("app", "ours");
  assert.equal((await both.pushManifest("app", "v1", ours)).status, 201);
  assert.equal(await resolved(), digest(ours));
  assert.equal((await both.send("DELETE", "/v2/app/manifests/v1")).status, 202);
  assert.equal(await resolved(), digest(theirs));
  // What the view has is not the registry's to delete.
  assert.equal(
    await failure(await both.send("DELETE", "/v2/app/manifests/v1")),
    "404 MANIFEST_UNKNOWN",
  );
});

Deno.test("union: blobs of the view, with HEAD, ranges and conditions", async () => {
  const { engine, both } = fixture();
  await engine.pushBlob("app", "0123456789");
  const path = `/v2/app/blobs/${digest("0123456789")}`;
  assert.equal((await both.send("HEAD", path)).headers.get("content-length"), "10");
  const range = await both.send("GET", path, { headers: { range: "bytes=2-4" } });
  assert.equal(range.status, 206);
  assert.equal(range.headers.get("content-range"), "bytes 2-4/10");
  assert.equal(await range.text(), "234");
  const past = await both.send("GET", path, { headers: { range: "bytes=20-" } });
  assert.equal(past.status, 416);
  const known = { "if-none-match": `"${digest("0123456789")}"` };
  assert.equal((await both.send("GET", path, { headers: known })).status, 304);
});

Deno.test("union: tags, catalog and referrers of both, in pages", async () => {
  const { engine, both } = fixture();
  const subject = await engine.image("app", "subject");
  await engine.pushManifest("app", "a", subject);
  await engine.pushManifest("app", "c", subject);
  await engine.pushManifest("engine/only", "v1", subject);
  await both.pushManifest("app", "b", await both.image("app", "b"));
  await both.pushManifest("app", "c", await both.image("app", "c"));
  await both.pushManifest("own/only", "v1", await both.image("own/only", "x"));
  assert.deepEqual(await pages(both, "/v2/app/tags/list?n=2", "tags"), [["a", "b"], ["c"]]);
  assert.deepEqual(await pages(both, "/v2/_catalog?n=2", "repositories"), [
    ["app", "engine/only"],
    ["own/only"],
  ]);
  const notes: string[] = [];
  for (const [at, side] of [engine, both, engine, both].entries()) {
    const text = await side.image("app", `note ${at}`, {
      artifactType: "application/x-note",
      subject: {
        mediaType: MEDIA.manifest,
        digest: digest(subject),
        size: bytesOf(subject).length,
      },
    });
    notes.push(digest(text));
    assert.equal((await side.pushManifest("app", digest(text), text)).status, 201);
  }
  const found = await pages<{ digest: string }>(
    both,
    `/v2/app/referrers/${digest(subject)}?n=3`,
    "manifests",
  );
  assert.deepEqual(found.map((page) => page.length), [3, 1]);
  assert.deepEqual(found.flat().map(({ digest }) => digest), notes.sort());
});

Deno.test("union: a push may leave out what the view has, and is whole without it", async () => {
  const { engine, own, both } = fixture();
  const text = await engine.image("app", "base");
  await engine.pushManifest("app", "base", text);
  // The client was told that the blobs are there.
  assert.equal((await both.send("HEAD", `/v2/app/blobs/${digest("layer base")}`)).status, 200);
  assert.equal((await both.pushManifest("app", "copy", text)).status, 201);
  for (const blob of ["layer base", '{"s":"base"}']) {
    assert.deepEqual(await own.stat("app", digest(blob)), { size: blob.length });
  }
  const index = JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: [{ mediaType: MEDIA.manifest, digest: digest(text), size: bytesOf(text).length }],
  });
  const put = await both.send("PUT", "/v2/app/manifests/all", {
    body: index,
    headers: { "content-type": MEDIA.index },
  });
  assert.equal(put.status, 201);
  const nowhere = JSON.stringify({
    ...JSON.parse(text),
    layers: [{ mediaType: MEDIA.layerTar, digest: ZERO, size: 1 }],
  });
  assert.equal(
    await failure(await both.pushManifest("app", "torn", nowhere)),
    "404 MANIFEST_BLOB_UNKNOWN",
  );
});

Deno.test("union: an index of the view's images is pushed with the images it names", async () => {
  const { engine, own, both } = fixture();
  const text = await engine.image("app", "base");
  await engine.pushManifest("app", "base", text);
  const index = JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: [{ mediaType: MEDIA.manifest, digest: digest(text), size: bytesOf(text).length }],
  });
  const put = await both.send("PUT", "/v2/app/manifests/all", {
    body: index,
    headers: { "content-type": MEDIA.index },
  });
  assert.equal(put.status, 201);
  assert.ok(await own.resolve("app", digest(text)));
  assert.ok(await own.stat("app", digest("layer base")));
});

Deno.test("union: a view that fails fails what only it could answer", async () => {
  const { engine, own } = fixture();
  const down = new Error("the engine is down");
  const broken = new Proxy(engine.store, {
    get: () => () => {
      throw down;
    },
  });
  const { send, pushManifest, image } = registry(own, unionView(own, broken));
  await pushManifest("app", "v1", await image("app", "ours"));
  assert.equal((await send("GET", "/v2/app/manifests/v1")).status, 200);
  assert.equal((await send("GET", "/v2/app/manifests/v2")).status, 500);
  assert.equal((await send("GET", "/v2/app/tags/list")).status, 500);
});

Deno.test("union: blobs of the own store are redirected to the storage, the view's come from here", async () => {
  const { engine, own } = fixture();
  await engine.pushBlob("app", "theirs");
  const signing = Object.assign(Object.create(own), {
    signedUrl: async (found: string) =>
      await own.stat("app", found) && `http://storage.test/${found}`,
  });
  const view = unionView(signing, engine.store);
  const { send, pushBlob } = registry(own, view, { redirectBlobs: true });
  await pushBlob("app", "ours");
  const ours = await send("GET", `/v2/app/blobs/${digest("ours")}`);
  assert.equal(ours.status, 307);
  const theirs = await send("GET", `/v2/app/blobs/${digest("theirs")}`);
  assert.equal(`${theirs.status} ${await theirs.text()}`, "200 theirs");
});
