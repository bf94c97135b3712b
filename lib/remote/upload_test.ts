import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { silent } from "../base/log.ts";
import { digestOf } from "../oci/digest.ts";
import { MEDIA } from "../oci/types.ts";
import { type FakeRegistry, startFakeRegistry } from "../../test/peers/fake_registry.ts";
import { createRemoteRegistry } from "./registry.ts";

const client = (fake: FakeRegistry) =>
  createRemoteRegistry({ host: fake.host, userAgent: "t", log: silent, attempts: 3, pauseMs: 1 });

const descriptor = (bytes: Uint8Array) => ({ digest: digestOf(bytes), size: bytes.length });
const streamOf = (bytes: Uint8Array<ArrayBuffer>) => new Blob([bytes]).stream();
const methods = (fake: FakeRegistry) => fake.seen.map((s) => s.line.split(" ")[0]);

/** Two pieces and a bit of the upload's size. */
function large(): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(17 * 1024 * 1024);
  for (let at = 0; at < bytes.length; at += 4096) bytes[at] = at / 4096;
  return bytes;
}

Deno.test("upload: a small blob goes whole, an empty one too", async () => {
  await using fake = startFakeRegistry();
  for (const bytes of [new Uint8Array([1, 2, 3]), new Uint8Array()]) {
    fake.seen.length = 0;
    await client(fake).putBlob("r", descriptor(bytes), streamOf(bytes));
    assert.deepEqual(fake.blobs.get(digestOf(bytes)), bytes);
    assert.deepEqual(methods(fake), ["POST", "PUT"]);
  }
});

Deno.test("upload: a large blob goes in pieces; a lost answer and a lost piece are made good", async () => {
  await using fake = startFakeRegistry();
  const bytes = large();
  let patches = 0;
  fake.intercept = async (request, url) => {
    if (request.method !== "PATCH") return;
    patches++;
    if (patches === 1) return new Response(null, { status: 503 }); // not taken
    if (patches === 3) { // taken, but the answer is lost
      const id = url.pathname.split("/").at(-1)!;
      const held = fake.uploads.get(id)!;
      const body = new Uint8Array(await request.arrayBuffer());
      const grown = new Uint8Array(held.length + body.length);
      grown.set(held);
      grown.set(body, held.length);
      fake.uploads.set(id, grown);
      return new Response(null, { status: 502 });
    }
  };
  await client(fake).putBlob("r", descriptor(bytes), streamOf(bytes));
  assert.equal(digestOf(fake.blobs.get(digestOf(bytes))!), digestOf(bytes));
  assert.equal(patches, 4); // refused, first, second without answer, third
});

Deno.test("upload: a registry that says late what it has is asked again", async () => {
  await using fake = startFakeRegistry();
  const bytes = large();
  let patches = 0, asked = 0;
  fake.intercept = async (request, url) => {
    const id = url.pathname.split("/").at(-1)!;
    // Its first answer is from before it took in what it has.
    if (request.method === "GET" && asked++ === 0) {
      return new Response(null, {
        status: 204,
        headers: { location: url.pathname, range: `0-${8 * 1024 * 1024 - 1}` },
      });
    }
    if (request.method !== "PATCH" || ++patches !== 2) return;
    const held = fake.uploads.get(id)!;
    const grown = new Uint8Array(held.length + 1024 * 1024);
    grown.set(held);
    grown.set(new Uint8Array(await request.arrayBuffer()).subarray(0, 1024 * 1024), held.length);
    fake.uploads.set(id, grown);
    return new Response(null, { status: 502 });
  };
  await client(fake).putBlob("r", descriptor(bytes), streamOf(bytes));
  assert.equal(digestOf(fake.blobs.get(digestOf(bytes))!), digestOf(bytes));
  assert.equal(asked, 2);
});

Deno.test("upload: bytes that are not what was said are not published, and the upload is dropped", async () => {
  await using fake = startFakeRegistry();
  const bytes = new Uint8Array([1, 2, 3]);
  const other = digestOf(new Uint8Array([9]));
  const wrong = client(fake).putBlob("r", { digest: other, size: 3 }, streamOf(bytes));
  await assert.rejects(wrong, (e) => e instanceof SvcError && e.code === "digest_invalid");
  const short = client(fake).putBlob("r", { ...descriptor(bytes), size: 4 }, streamOf(bytes));
  await assert.rejects(short, (e) => e instanceof SvcError && e.code === "size_invalid");
  assert.equal(fake.blobs.size, 0);
  assert.equal(fake.uploads.size, 0);
  assert.equal(methods(fake).at(-1), "DELETE");
});

Deno.test("upload: a source that breaks gives its own error and drops the upload", async () => {
  await using fake = startFakeRegistry();
  const broken = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.error(new Error("disk gone")),
  });
  const put = client(fake).putBlob("r", { digest: digestOf(new Uint8Array()), size: 0 }, broken);
  await assert.rejects(put, /disk gone/);
  assert.equal(fake.uploads.size, 0);
});

Deno.test("upload: mounts where the blob is, and cancels the upload it is offered else", async () => {
  await using fake = startFakeRegistry();
  const bytes = new Uint8Array([7]);
  fake.blobs.set(digestOf(bytes), bytes);
  assert.equal(await client(fake).mountBlob("r", digestOf(bytes), "from"), true);
  assert.equal(await client(fake).mountBlob("r", digestOf(new Uint8Array([8])), "from"), false);
  assert.equal(fake.uploads.size, 0);
  assert.equal(await client(fake).hasBlob("r", digestOf(bytes)), true);
  assert.equal(await client(fake).hasBlob("r", digestOf(new Uint8Array([8]))), false);
});

Deno.test("upload: a manifest lands under each tag, or its digest without one", async () => {
  await using fake = startFakeRegistry();
  const bytes = new TextEncoder().encode('{"schemaVersion":2}');
  const wanted = { mediaType: MEDIA.manifest, digest: digestOf(bytes), size: bytes.length };
  assert.deepEqual(
    await client(fake).putManifest("r", MEDIA.manifest, bytes, ["v1", "v2"]),
    wanted,
  );
  assert.ok(fake.manifests.has("r/v1") && fake.manifests.has("r/v2"));
  await client(fake).putManifest("s", MEDIA.manifest, bytes, []);
  assert.ok(fake.manifests.has(`s/${digestOf(bytes)}`));
});
