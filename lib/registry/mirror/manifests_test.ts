import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { digestOf } from "../../oci/digest.ts";
import { MEDIA } from "../../oci/types.ts";
import { encode, FakeUpstream, mirrored, noise } from "./fixture_test.ts";

type Registry = Awaited<ReturnType<typeof mirrored>>;

const digestHeader = (response: Response) => response.headers.get("docker-content-digest");

async function tagged(it: Registry, tag: string, repository = "app") {
  const response = await it.send("GET", `/v2/${repository}/manifests/${tag}`);
  await response.body?.cancel();
  return response;
}

/** Pushes an image whose blobs are here; gives its digest. */
async function push(it: Registry, tag: string, seed: string, repository = "app"): Promise<string> {
  const response = await it.pushManifest(repository, tag, await it.image(repository, seed));
  assert.equal(response.status, 201);
  return digestHeader(response)!;
}

Deno.test("mirror manifests: a tag comes from upstream and stands in the store like a pushed one", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream, { freshMs: 60_000 });
  const image = upstream.addImage("app", noise(1000), "v1");
  const response = await it.send("GET", "/v2/app/manifests/v1");
  assert.equal(response.status, 200);
  assert.equal(digestHeader(response), image.digest);
  assert.equal(response.headers.get("x-svc-stale"), null);
  assert.equal(digestOf(new Uint8Array(await response.arrayBuffer())), image.digest);
  assert.deepEqual((await it.store.resolve("app", "v1"))?.descriptor.digest, image.digest);
  assert.deepEqual(await Array.fromAsync(it.store.repositories()), ["app"]);
  // Its blobs count as used before they are here, so that nothing takes them away once they are.
  await it.store.putBlob("app", image.layers[0], new Blob([noise(1000) as BlobPart]).stream());
  await assert.rejects(it.store.deleteBlob("app", image.layers[0].digest), { code: "blob_in_use" });
  assert.equal((await tagged(it, "v1")).status, 200);
  assert.equal((await tagged(it, image.digest)).status, 200);
  assert.deepEqual(upstream.asked, ["resolve app v1"]);
});

Deno.test("mirror manifests: many ask at once, the upstream is asked once", async () => {
  const upstream = new FakeUpstream();
  const hold = Promise.withResolvers<void>();
  upstream.hold = hold.promise;
  await using it = await mirrored(upstream);
  upstream.addImage("app", noise(10), "v1");
  const answers = Array.from({ length: 20 }, () => tagged(it, "v1"));
  await new Promise((resolve) => setTimeout(resolve, 10));
  hold.resolve();
  assert((await Promise.all(answers)).every(({ status }) => status === 200));
  assert.deepEqual(upstream.asked, ["resolve app v1"]);
});

Deno.test("mirror manifests: a tag that is no longer fresh is compared, and moved where it moved", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const old = upstream.addImage("app", noise(10), "v1");
  assert.equal(digestHeader(await tagged(it, "v1")), old.digest);
  assert.equal(digestHeader(await tagged(it, "v1")), old.digest);
  assert.deepEqual(upstream.asked, ["resolve app v1", "head app v1"]);
  const next = upstream.addImage("app", noise(11), "v1");
  assert.equal(digestHeader(await tagged(it, "v1")), next.digest);
  assert.equal((await it.store.resolve("app", "v1"))?.descriptor.digest, next.digest);
  // And once more: a moved tag is still the mirror's.
  const last = upstream.addImage("app", noise(12), "v1");
  assert.equal(digestHeader(await tagged(it, "v1")), last.digest);
  assert.equal((await tagged(it, old.digest)).status, 200);
});

Deno.test("mirror manifests: with the upstream down or silent, what is here is served as stale", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream, { revalidateMs: 50 });
  const image = upstream.addImage("app", noise(10), "v1");
  await tagged(it, "v1");
  upstream.down();
  const stale = await tagged(it, "v1");
  assert.equal(stale.status, 200);
  assert.equal(digestHeader(stale), image.digest);
  assert.equal(stale.headers.get("x-svc-stale"), "true");
  assert.equal(stale.headers.get("warning"), '110 - "Response is Stale"');
  assert.equal((await tagged(it, image.digest)).headers.get("x-svc-stale"), null);
  assert.equal((await tagged(it, "v2")).status, 502);
  assert.equal((await it.send("HEAD", "/v2/app/manifests/v2")).status, 502);
  assert.equal((await it.send("HEAD", `/v2/app/manifests/${digestOf(noise(3))}`)).status, 502);
  // A push does not need the upstream.
  assert.equal((await it.send("HEAD", `/v2/app/blobs/${digestOf(noise(3))}`)).status, 404);
  assert.equal((await it.send("HEAD", "/v2/app/manifests/v2")).status, 404);
  assert.equal((await it.send("HEAD", "/v2/other/manifests/v2")).status, 502);
  upstream.failure = undefined;
  upstream.hold = new Promise(() => {});
  assert.equal((await tagged(it, "v1")).headers.get("x-svc-stale"), "true");
  assert.equal((await it.send("HEAD", "/v2/app/manifests/v3")).status, 404);
  upstream.hold = undefined;
  // A machine that stands still for a moment makes it stale once more.
  while ((await tagged(it, "v1")).headers.get("x-svc-stale") !== null) { /* asked again */ }
});

Deno.test("mirror manifests: while it is down the upstream is not asked for each request", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream, { pauseMs: 60_000 });
  upstream.addImage("app", noise(10), "v1");
  await tagged(it, "v1");
  upstream.down();
  for (let n = 0; n < 5; n++) {
    assert.equal((await tagged(it, "v1")).headers.get("x-svc-stale"), "true");
    assert.equal((await tagged(it, `other-${n}`)).status, 502);
  }
  assert.equal(upstream.asked.length, 2);
});

Deno.test("mirror manifests: what was pushed here wins, also over a tag that was mirrored", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  upstream.addImage("app", noise(10), "v1", "v2");
  await tagged(it, "v1");
  await tagged(it, "v2");
  const pushed = await push(it, "v1", "mine");
  assert.equal(digestHeader(await tagged(it, "v1")), pushed);
  const moved = upstream.addImage("app", noise(11), "v1", "v2").digest;
  assert.equal(digestHeader(await tagged(it, "v1")), pushed);
  // A new process knows which is which.
  await using again = await mirrored(upstream, { objects: it.objects });
  assert.equal(digestHeader(await tagged(again, "v1")), pushed);
  assert.equal(digestHeader(await tagged(again, "v2")), moved);
});

Deno.test("mirror manifests: pushing the very image that was mirrored makes the tag ours", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const text = await it.image("app", "same");
  upstream.addManifest("app", JSON.parse(text), MEDIA.manifest, "v1");
  await tagged(it, "v1");
  const pushed = digestHeader(await it.pushManifest("app", "v1", text));
  upstream.addImage("app", noise(9), "v1");
  assert.equal(digestHeader(await tagged(it, "v1")), pushed);
});

Deno.test("mirror manifests: a push while the upstream is asked is not overwritten", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const hold = Promise.withResolvers<void>();
  upstream.addImage("app", noise(10), "v1");
  upstream.hold = hold.promise;
  const asking = tagged(it, "v1");
  await new Promise((resolve) => setTimeout(resolve, 10));
  const pushed = await push(it, "v1", "mine");
  hold.resolve();
  assert.equal(digestHeader(await asking), pushed);
  assert.equal((await it.store.resolve("app", "v1"))?.descriptor.digest, pushed);
});

Deno.test("mirror manifests: a push is accepted while the upstream is down", async () => {
  const upstream = new FakeUpstream();
  upstream.down();
  await using it = await mirrored(upstream);
  const { digest } = await it.pushBlob("app", "layer");
  assert.equal((await it.send("HEAD", `/v2/app/blobs/${digest}`)).status, 200);
  const pushed = await push(it, "v1", "mine");
  assert.equal(digestHeader(await tagged(it, "v1")), pushed);
});

Deno.test("mirror manifests: what a HEAD said is there, a push may leave out", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const image = upstream.addImage("app", noise(1000), "base");
  for (const { digest } of [image.config, ...image.layers]) {
    assert.equal((await it.send("HEAD", `/v2/app/blobs/${digest}`)).status, 200);
  }
  const document = {
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: image.config,
    layers: image.layers,
    annotations: { new: "yes" },
  };
  const answer = await it.pushManifest("app", "mine", JSON.stringify(document));
  assert.equal(answer.status, 201);
  assert.equal(await it.store.hasBlob("app", image.layers[0].digest), true);
  // An index over a manifest that only the upstream has.
  const { mediaType, digest, size } = image;
  const index = {
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: [{ mediaType, digest, size }],
  };
  const put = await it.send("PUT", "/v2/app/manifests/all", {
    body: JSON.stringify(index),
    headers: { "content-type": MEDIA.index },
  });
  assert.equal(put.status, 201);
  const lacking = { ...document, layers: [{ ...image.layers[0], digest: digestOf(noise(3)) }] };
  assert.equal((await it.pushManifest("app", "bad", JSON.stringify(lacking))).status, 404);
});

Deno.test("mirror manifests: a tag that the upstream gave up goes, its manifest stays", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const { digest } = upstream.addImage("app", noise(10), "v1");
  await tagged(it, "v1");
  upstream.manifests.delete("app:v1");
  assert.equal((await tagged(it, "v1")).status, 404);
  assert.equal(await it.store.resolve("app", "v1"), undefined);
  assert.equal((await tagged(it, digest)).status, 200);
  // Refused is not given up: the login may have ended.
  upstream.addImage("app", noise(10), "v1");
  await tagged(it, "v1");
  upstream.failure = new SvcError("unauthorized", "Cannot use registry up.example: no login");
  assert.equal((await tagged(it, "v1")).headers.get("x-svc-stale"), "true");
  assert.equal((await tagged(it, "v7")).status, 404);
});

Deno.test("mirror manifests: a deleted tag or manifest comes back from upstream when asked for", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const { digest } = upstream.addImage("app", noise(10), "v1");
  await tagged(it, "v1");
  assert.equal((await it.send("DELETE", `/v2/app/manifests/${digest}`)).status, 202);
  assert.equal(await it.store.resolve("app", "v1"), undefined);
  assert.equal(digestHeader(await tagged(it, "v1")), digest);
  assert.equal((await it.send("DELETE", "/v2/app/manifests/v1")).status, 202);
  assert.equal(digestHeader(await tagged(it, "v1")), digest);
});

Deno.test("mirror manifests: negative answers are remembered for a moment only", async () => {
  const upstream = new FakeUpstream();
  let now = 0;
  await using it = await mirrored(upstream, { pauseMs: 1000, now: () => now });
  for (const _ of [1, 2, 3]) assert.equal((await tagged(it, "v1")).status, 404);
  assert.equal(upstream.asked.length, 1);
  upstream.addImage("app", noise(10), "v1");
  assert.equal((await tagged(it, "v1")).status, 404);
  now += 1000;
  assert.equal((await tagged(it, "v1")).status, 200);
});

Deno.test("mirror manifests: with the cache off nothing is written, and nothing is served stale", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream, { cache: false });
  const { digest } = upstream.addImage("app", noise(10), "v1");
  assert.equal(digestHeader(await tagged(it, "v1")), digest);
  assert.deepEqual(await Array.fromAsync(it.objects.list("")), []);
  const pushed = await push(it, "mine", "here");
  upstream.down();
  assert.equal((await tagged(it, "v1")).status, 502);
  assert.equal(digestHeader(await tagged(it, "mine")), pushed);
});

Deno.test("mirror manifests: kinds that this registry does not store pass through", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const bytes = encode('{"schemaVersion":1}');
  const mediaType = "application/vnd.docker.distribution.manifest.v1+json";
  const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
  upstream.manifests.set("app:old", { descriptor, bytes });
  assert.equal((await tagged(it, "old")).headers.get("content-type"), mediaType);
  assert.equal(await it.store.resolve("app", "old"), undefined);
});
