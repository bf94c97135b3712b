/** The registry view of a real containerd: pushes, pulls, deletes, and what the collector takes. */
import assert from "node:assert/strict";
import { silent } from "../../lib/base/log.ts";
import { Leases } from "../../lib/containerd/api.ts";
import { ContainerdClient } from "../../lib/containerd/client.ts";
import { GarbageCollection } from "../../lib/containerd/garbage.ts";
import { Content, Images } from "../../lib/containerd/image_api.ts";
import { ContainerdImages } from "../../lib/containerd/images.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { MEDIA } from "../../lib/oci/types.ts";
import { bytesOf, digest, failure, pages } from "../../lib/registry/fixture_test.ts";
import {
  assertBlob,
  fixture,
  HOST,
  push,
  registryTest,
  type Server,
  server,
  status,
  useContainerds,
  VERSIONS,
} from "./containerd_registry_fixture.ts";
import { CONTENT, registryReaderContract } from "./registry_reader.ts";

useContainerds();

for (const version of VERSIONS) {
  if (version.ignore) continue;
  registryReaderContract({
    name: `reader: ${version.name}`,
    async open() {
      const at = await fixture(version);
      for (const text of CONTENT.blobs) await at.pushBlob("app", text);
      for (const { repository, tags, text } of CONTENT.manifests) {
        await at.writer.publish(repository, undefined, bytesOf(text), { tags });
      }
      return { reader: at.view, [Symbol.asyncDispose]: () => at[Symbol.asyncDispose]() };
    },
  });
}

registryTest("a push becomes an image, which the collector leaves alone", async (at) => {
  const text = await at.image("app", "one");
  await at.collect();
  assert.ok(await at.has("layer one"), "a push counts on it");
  assert.equal((await at.pushManifest("app", "v1", text, "?tag=v2")).status, 201);
  assert.deepEqual(await at.names(), [`${HOST}/app:v1`, `${HOST}/app:v2`]);
  await at.collect();
  for (const reference of ["v1", "v2", digest(text)]) {
    const answer = await at.send("GET", `/v2/app/manifests/${reference}`);
    assert.equal(await answer.text(), text);
    assert.equal(answer.headers.get("docker-content-digest"), digest(text));
  }
  await assertBlob(at, "app", "layer one");
  assert.deepEqual(await pages(at, "/v2/_catalog", "repositories"), [["app"]]);
  assert.deepEqual(await pages(at, "/v2/library/app/tags/list?n=1", "tags"), [["v1"], ["v2"]]);
  assert.equal(await status(at, "GET", `/v2/other/manifests/${digest(text)}`), 404);
});

registryTest("chunks, resumed by another server and after containerd was killed", async (at) => {
  const started = await at.send("POST", "/v2/app/blobs/uploads/");
  const location = started.headers.get("location")!;
  const patch = (to: Server, range: string, body: string) =>
    to.send("PATCH", location, { body, headers: { "content-range": range } });
  assert.equal((await patch(at, "0-5", "hello ")).headers.get("range"), "0-5");
  assert.equal(await failure(await patch(at, "9-10", "??")), "416 BLOB_UPLOAD_INVALID");
  // Other repositories and made-up ids do not reach it.
  for (
    const other of [location.replace("/app/", "/other/"), `${location}x`, location.slice(0, -3)]
  ) {
    assert.equal(await failure(await at.send("GET", other)), "404 BLOB_UPLOAD_UNKNOWN", other);
  }
  for (const id of ["..%2F..%2Fx", "svc-me-sha256:0", "%00", "a".repeat(300)]) {
    assert.equal(await status(at, "PATCH", `/v2/app/blobs/uploads/${id}`), 404, id);
  }
  await at.peer.kill9();
  assert.ok((await patch(at, "6-10", "world")).status >= 500);
  await at.peer.start();
  assert.equal((await at.send("GET", location)).headers.get("range"), "0-5");
  assert.equal((await patch(at, "6-10", "world")).headers.get("range"), "0-10");
  await at[Symbol.asyncDispose]();
  await using client = new ContainerdClient(at.client);
  await using next = server(client);
  assert.equal((await next.send("GET", location)).headers.get("range"), "0-10");
  const done = await next.send("PUT", `${location}?digest=${digest("hello world!")}`, {
    body: "!",
  });
  assert.equal(done.status, 201, await done.text());
  await assertBlob(next, "app", "hello world!");
});

registryTest("what has another digest is refused, also where the digest exists", async (at) => {
  await at.pushBlob("app", "here");
  for (const named of [digest("here"), digest("nowhere")]) {
    const path = `/v2/app/blobs/uploads/?digest=${named}`;
    const answer = await at.send("POST", path, { body: "else" });
    assert.equal(await failure(answer), "400 DIGEST_INVALID");
  }
  const sha512 = digestOf(bytesOf("x"), "sha512");
  const long = await at.send("POST", `/v2/app/blobs/uploads/?digest=${sha512}`, { body: "x" });
  assert.equal(await failure(long), "400 DIGEST_INVALID");
  assert.equal(await status(at, "HEAD", `/v2/app/blobs/${sha512}`), 404);
  const { statuses } = await at.client.call(Content.statuses, {}, "Cannot list writes");
  assert.deepEqual(statuses, [], "a refused upload is left");
});

registryTest("empty blobs, mounts, and two pushers of one blob", async (at) => {
  await at.pushBlob("app", "");
  await assertBlob(at, "app", "");
  const text = "x".repeat(3_000_000);
  await Promise.all([at.pushBlob("app", text), at.pushBlob("app", text), at.pushBlob("b", text)]);
  await assertBlob(at, "app", text);
  const mount = (what: string) => `/v2/c/blobs/uploads/?mount=${digest(what)}&from=app`;
  assert.equal(await status(at, "POST", mount(text)), 201);
  assert.equal(await status(at, "POST", mount("none")), 202);
  const range = await at.send("GET", `/v2/c/blobs/${digest(text)}`, {
    headers: { range: "bytes=5-7" },
  });
  assert.equal(`${range.status} ${await range.text()}`, "206 xxx");
});

registryTest("manifests: their parts, sizes and names are checked", async (at) => {
  const layer = { mediaType: MEDIA.layerGzip, digest: digest("absent"), size: 6 };
  const config = { ...await at.pushBlob("app", "{}"), mediaType: MEDIA.config };
  const document = { schemaVersion: 2, mediaType: MEDIA.manifest, config, layers: [layer] };
  const put = async (text: unknown, name = "app") =>
    await failure(await at.pushManifest(name, "v1", JSON.stringify(text)));
  assert.equal(await put(document), "404 MANIFEST_BLOB_UNKNOWN");
  assert.equal(await put({ ...document, layers: [{ ...config, size: 9 }] }), "400 SIZE_INVALID");
  assert.equal(await put({ ...document, layers: [{ digest: "../x" }] }), "400 MANIFEST_INVALID");
  assert.equal(await put({ ...document, x: "x".repeat(4 << 20) }), "413 MANIFEST_INVALID");
  const good = { ...document, layers: [] };
  assert.equal(await put(good, "a".repeat(250)), "400 NAME_INVALID");
  // Names of other registries stay theirs: a deployment of one must not get what is pushed here.
  for (const name of ["docker.io/library/app", "ghcr.io/org/app", "localhost/app"]) {
    assert.equal(await put(good, name), "403 DENIED", name);
    assert.equal(await status(at, "POST", `/v2/${name}/blobs/uploads/`), 403);
  }
  assert.deepEqual(await at.names(), []);
  // A config is no manifest.
  assert.equal(await status(at, "GET", `/v2/app/manifests/${config.digest}`), 404);
});

registryTest("a tag that moves lets go of the image before", async (at) => {
  await push(at, "app", "v1", "old");
  await push(at, "app", "v1", "new");
  await at[Symbol.asyncDispose]();
  await at.collect();
  assert.equal(await at.has("layer old"), false);
  assert.equal(await at.has("layer new"), true);
});

registryTest("deletes: names go at once, blobs when nobody needs them", async (at) => {
  const text = await push(at, "app", "v1", "one");
  await push(at, "app", "v2", "one");
  const layer = `/v2/app/blobs/${digest("layer one")}`;
  assert.equal(await failure(await at.send("DELETE", layer)), "405 DENIED");
  assert.equal(await status(at, "DELETE", "/v2/app/manifests/v1"), 202);
  assert.equal(await status(at, "DELETE", "/v2/app/manifests/v1"), 404);
  assert.equal(await status(at, "GET", `/v2/app/manifests/${digest(text)}`), 200);
  assert.equal(await status(at, "DELETE", `/v2/app/manifests/${digest(text)}`), 202);
  assert.equal(await status(at, "GET", "/v2/app/manifests/v2"), 404);
  assert.deepEqual(await at.names(), []);
  await at.pushBlob("app", "loose");
  // More pushes may count on it: they are told when they name it.
  assert.equal(await status(at, "HEAD", `/v2/app/blobs/${digest("loose")}`), 200);
  await using again = server(at.client);
  assert.equal(await status(again, "DELETE", `/v2/app/blobs/${digest("loose")}`), 202);
  assert.equal(await status(at, "DELETE", `/v2/app/blobs/${digest("loose")}`), 404);
  assert.equal(await at.has("layer one"), false);
  // Somebody else's lease.
  await at.pushBlob("app", "kept");
  await at.client.call(Leases.create, { id: "theirs" }, "Cannot make a lease");
  await at.content.hold(digest("kept"), { lease: "theirs" });
  const kept = await at.send("DELETE", `/v2/app/blobs/${digest("kept")}`);
  assert.equal(await failure(kept), "405 DENIED");
});

registryTest("an index keeps its parts, which lose their own names to it", async (at) => {
  const parts = [await at.image("app", "amd"), await at.image("app", "arm")];
  for (const part of parts) {
    assert.equal((await at.pushManifest("app", digest(part), part)).status, 201);
  }
  assert.equal((await at.names()).length, 2);
  const index = JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: parts.map((part) => ({
      mediaType: MEDIA.manifest,
      digest: digest(part),
      size: part.length,
    })),
  });
  const put = await at.send("PUT", "/v2/app/manifests/v1", {
    body: index,
    headers: { "content-type": MEDIA.index },
  });
  assert.equal(put.status, 201, await put.text());
  assert.deepEqual(await at.names(), [`${HOST}/app:v1`]);
  await at[Symbol.asyncDispose]();
  await at.collect();
  await assertBlob(at, "app", "layer arm");
  const part = `/v2/app/manifests/${digest(parts[1])}`;
  assert.equal(await (await at.send("GET", part)).text(), parts[1]);
  assert.equal(await failure(await at.send("DELETE", part)), "405 DENIED");
});

const indexOf = (parts: readonly { digest: string; size: number }[], mediaType: string) =>
  JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: parts.map(({ digest, size }) => ({ mediaType, digest, size })),
  });

registryTest("indexes that would make every look long are refused", async (at) => {
  const put = async (text: string) => {
    const headers = { "content-type": MEDIA.index };
    const path = `/v2/app/manifests/${digest(text)}`;
    return await at.send("PUT", path, { body: text, headers });
  };
  const wide = Array.from({ length: 1001 }, (_, i) => ({ digest: digest(`${i}`), size: 1 }));
  const answer = await put(indexOf(wide, MEDIA.manifest));
  assert.equal(answer.status, 400);
  assert.match((await answer.json()).errors[0].message, /names 1001 manifests, the limit is 1000/);
  const image = await push(at, "app", "v1", "one");
  let mediaType: string = MEDIA.manifest;
  let text = image;
  for (let depth = 1; depth <= 8; depth++) {
    text = indexOf([{ digest: digest(text), size: text.length }], mediaType);
    mediaType = MEDIA.index;
    const stored = await put(text);
    assert.equal(stored.status, 201, await stored.text());
  }
  const below = `/v2/app/manifests/${digest(image)}`;
  assert.equal(await status(at, "DELETE", "/v2/app/manifests/v1"), 202);
  assert.equal(await status(at, "GET", below), 200);
  const deep = await put(indexOf([{ digest: digest(text), size: text.length }], MEDIA.index));
  assert.equal(await failure(deep), "400 MANIFEST_INVALID");
  // What other programs made is looked through to the same depth.
  await using sink = await new ContainerdImages({
    ...at,
    owner: "theirs",
    garbage: new GarbageCollection(at.client, silent),
  }).open();
  for (let depth = 9; depth <= 30; depth++) {
    text = indexOf([{ digest: digest(text), size: text.length }], MEDIA.index);
    await sink.putManifest("", MEDIA.index, bytesOf(text), []);
  }
  const target = { mediaType: MEDIA.index, digest: digest(text), size: text.length };
  const name = "ghcr.io/org/deep:1";
  await at.client.call(Images.create, { image: { name, labels: {}, target } }, "Cannot name");
  assert.equal(await status(at, "GET", `/v2/ghcr.io/org/deep/manifests/${digest(image)}`), 404);
  assert.equal(await status(at, "GET", `/v2/ghcr.io/org/deep/manifests/1`), 200);
});

registryTest("referrers outlive their tags", async (at) => {
  const subject = await push(at, "app", "v1", "subject");
  const note = await at.image("app", "note", {
    artifactType: "application/x-note",
    annotations: { by: "me" },
    subject: { mediaType: MEDIA.manifest, digest: digest(subject), size: subject.length },
  });
  const answer = await at.pushManifest("app", "note", note);
  assert.equal(answer.headers.get("oci-subject"), digest(subject));
  await push(at, "app", "note", "other");
  await at.collect();
  const path = `/v2/app/referrers/${digest(subject)}`;
  const [[found]] = await pages<Record<string, unknown>>(at, path, "manifests");
  assert.equal(found.digest, digest(note));
  assert.equal(found.artifactType, "application/x-note");
  assert.deepEqual(found.annotations, { by: "me" });
  assert.equal(await status(at, "DELETE", `/v2/app/manifests/${digest(note)}`), 202);
  assert.deepEqual(await pages(at, path, "manifests"), [[]]);
});
