/** What every ContentStore must do; see lib/store/content_store.ts. */
import assert from "node:assert/strict";
import type { ContentStore } from "../../lib/store/content_store.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { type Descriptor, MEDIA } from "../../lib/oci/types.ts";

export interface ContentStoreUnderTest {
  store: ContentStore;
  /** A restart on the same data. Called where the store is durable. */
  reopen?: () => Promise<ContentStore>;
  cleanup: () => PromiseLike<void>;
}

const encode = (value: unknown) =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));
const streamOf = (...parts: (string | Uint8Array)[]) =>
  ReadableStream.from(parts.map((part) => typeof part === "string" ? encode(part) : part));
const read = async (body: { stream(): ReadableStream<Uint8Array> } | undefined) =>
  body && await new Response(body.stream() as BodyInit).text();

function broken(...parts: string[]): ReadableStream<Uint8Array> {
  const left = parts.map(encode);
  return new ReadableStream({
    pull(controller) {
      const next = left.shift();
      if (next) controller.enqueue(next);
      else controller.error(new Error("connection lost"));
    },
  });
}

async function pushBlob(store: ContentStore, repository: string, text: string) {
  const descriptor: Descriptor = {
    mediaType: MEDIA.layerGzip,
    digest: digestOf(encode(text)),
    size: encode(text).length,
  };
  await store.putBlob(repository, descriptor, streamOf(text));
  return descriptor;
}

/** Pushes an image's blobs and gives its manifest. */
async function image(
  store: ContentStore,
  repository: string,
  seed: string,
  extra: Record<string, unknown> = {},
) {
  const config = {
    ...await pushBlob(store, repository, `{"seed":"${seed}"}`),
    mediaType: MEDIA.config,
  };
  const layer = await pushBlob(store, repository, `layer of ${seed}`);
  const bytes = encode({
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config,
    layers: [layer],
    ...extra,
  });
  return { bytes, digest: digestOf(bytes), config, layer };
}

/** `durable`: what is acknowledged outlives the process; without it those tests are left out. */
export function contentStoreContract(
  name: string,
  open: () => Promise<ContentStoreUnderTest>,
  { durable }: { durable: boolean },
): void {
  const test = (
    title: string,
    fn: (under: ContentStoreUnderTest) => Promise<void>,
    ignore = false,
  ) =>
    Deno.test({ name: `${name}: ${title}`, ignore }, async () => {
      const under = await open();
      try {
        await fn(under);
      } finally {
        await under.cleanup();
      }
    });

  test("blobs are stored, verified, ranged and shared", async ({ store }) => {
    const blob = await pushBlob(store, "a", "hello world");
    assert.deepEqual(await store.stat("a", blob.digest), { size: 11 });
    assert.equal(await read(await store.get("a", blob.digest)), "hello world");
    const part = await store.get("a", blob.digest, { range: { start: 4, end: 6 } });
    assert.equal(part?.size, 3);
    assert.equal(await read(part), "o w");
    assert.equal(await store.hasBlob("other/repo", blob.digest), true);
    assert.equal(await store.mountBlob?.("b", blob.digest, "a"), true);
    assert.equal(await store.mountBlob?.("b", digestOf(encode("no")), "a"), false);
    assert.equal(await store.get("a", digestOf(encode("no"))), undefined);
    await store.putBlob("a", blob, streamOf("hello world"));
    const long = digestOf(encode("512"), "sha512");
    await store.putBlob("a", { digest: long, size: 3 }, streamOf("5", "12"));
    assert.equal(await read(await store.get("a", long)), "512");
    const empty = digestOf(new Uint8Array());
    await store.putBlob("a", { digest: empty, size: 0 }, streamOf());
    assert.equal(await read(await store.get("a", empty)), "");
  });

  test("a blob that is not what it says is refused and not kept", async ({ store }) => {
    const digest = digestOf(encode("abc"));
    const put = (size: number, body: ReadableStream<Uint8Array>) =>
      store.putBlob("a", { digest, size }, body);
    await assert.rejects(put(3, streamOf("abd")), { code: "digest_invalid" });
    await assert.rejects(put(4, streamOf("abc")), { code: "size_invalid" });
    await assert.rejects(put(2, streamOf("abc")), { code: "size_invalid" });
    await assert.rejects(put(3, broken("ab")), /connection lost/);
    await assert.rejects(store.putBlob("a", { digest: "sha256:x", size: 3 }, streamOf("abc")), {
      code: "digest_invalid",
    });
    await assert.rejects(store.putBlob("A//", { digest, size: 3 }, streamOf("abc")), {
      code: "name_invalid",
    });
    const pieces = ["x".repeat(60_000), "y".repeat(60_000)];
    const long = { digest: digestOf(encode(pieces.join(""))), size: 120_000 };
    const bad = streamOf(pieces[0], pieces[0]);
    await assert.rejects(store.putBlob("a", long, bad), { code: "digest_invalid" });
    await assert.rejects(store.putBlob("a", long, streamOf(pieces[0])), { code: "size_invalid" });
    await assert.rejects(store.putBlob("a", long, broken(pieces[0])), /connection lost/);
    assert.equal(await store.hasBlob("a", digest) || await store.hasBlob("a", long.digest), false);
    assert.equal(await store.expireUploads(-60_000), 0, "an upload is left");
    await store.putBlob("a", long, streamOf(...pieces));
    assert.equal(await read(await store.get("a", long.digest)), pieces.join(""));
  });

  test("an upload takes chunks in order, and only at its offset", async ({ store }) => {
    const upload = await store.startUpload("a/b");
    assert.equal(upload.repository, "a/b");
    assert.equal(await upload.append(streamOf("hello "), { at: 0 }), 6);
    await assert.rejects(upload.append(streamOf("x"), { at: 3 }), { code: "range_invalid" });
    await assert.rejects(upload.append(streamOf("x"), { at: 9 }), { code: "range_invalid" });
    const again = await store.openUpload("a/b", upload.id);
    assert.equal(again?.offset, 6);
    assert.equal(await store.openUpload("a/c", upload.id), undefined);
    assert.equal(await store.openUpload("a/b", crypto.randomUUID()), undefined);
    assert.equal(await store.openUpload("a/b", "../../x"), undefined);
    await assert.rejects(again.append(streamOf("world and more"), { limit: 5 }), {
      code: "size_invalid",
    });
    assert.equal(again.offset, 11);
    assert.deepEqual(await again.commit(digestOf(encode("hello world"))), { size: 11 });
    await assert.rejects(upload.append(streamOf("x")), { code: "blob_upload_unknown" });
    assert.equal(await store.openUpload("a/b", upload.id), undefined);
    assert.equal(
      await read(await store.get("a/b", digestOf(encode("hello world")))),
      "hello world",
    );
  });

  test("a broken body keeps what arrived", async ({ store }) => {
    const upload = await store.startUpload("a");
    await assert.rejects(upload.append(broken("hel", "lo ")), /connection lost/);
    assert.equal(upload.offset, 6);
    const abort = new AbortController();
    const stuck = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(encode("wor")),
      pull: () => abort.abort(new Error("gone")),
    }, { highWaterMark: 0 });
    await assert.rejects(upload.append(stuck, { signal: abort.signal }), /gone/);
    assert.equal(upload.offset, 9);
    await upload.append(streamOf("ld"), { at: 9 });
    const long = digestOf(encode("hello world"), "sha512");
    await upload.commit(long);
    assert.equal(await read(await store.get("a", long)), "hello world");
  });

  test("appends of one upload do not mix, commits of a wrong digest drop it", async ({ store }) => {
    const upload = await store.startUpload("a");
    const slow = async function* (letter: string) {
      for (let i = 0; i < 4; i++) {
        yield encode(letter.repeat(100_000));
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    };
    await Promise.all([
      upload.append(ReadableStream.from(slow("a"))),
      upload.append(ReadableStream.from(slow("b"))),
    ]);
    const expected = encode("a".repeat(400_000) + "b".repeat(400_000));
    await upload.commit(digestOf(expected));
    const wrong = await store.startUpload("a");
    await wrong.append(streamOf("abc"));
    await assert.rejects(wrong.commit(digestOf(encode("abd"))), { code: "digest_invalid" });
    assert.equal(await store.openUpload("a", wrong.id), undefined);
    const dropped = await store.startUpload("a");
    await dropped.abort();
    await assert.rejects(dropped.commit(digestOf(encode(""))), { code: "blob_upload_unknown" });
  });

  test("many uploads at once, more than are kept open", async ({ store }) => {
    const uploads = [];
    for (let i = 0; i < 150; i++) uploads.push(await store.startUpload("a"));
    for (const [i, upload] of uploads.entries()) await upload.append(streamOf(`one ${i}`));
    for (const [i, upload] of uploads.entries()) {
      await upload.append(streamOf(", two"));
      await upload.commit(digestOf(encode(`one ${i}, two`)));
    }
    assert.equal(await store.expireUploads(-60_000), 0);
  });

  test("stale uploads expire, touched ones stay", async ({ store }) => {
    const upload = await store.startUpload("a");
    await upload.append(streamOf("abc"));
    assert.equal(await store.expireUploads(60_000), 0);
    assert.equal((await store.openUpload("a", upload.id))?.offset, 3);
    assert.equal(await store.expireUploads(-60_000), 1);
    assert.equal(await store.openUpload("a", upload.id), undefined);
  });

  test("manifests by tag and digest, moved tags, deletes", async ({ store }) => {
    const one = await image(store, "team/app", "one");
    const two = await image(store, "team/app", "two");
    assert.equal(await store.hasRepository("team/app"), false);
    const published = await store.publish("team/app", MEDIA.manifest, one.bytes, {
      tags: ["v1", "latest"],
    });
    const descriptor = { mediaType: MEDIA.manifest, digest: one.digest, size: one.bytes.length };
    assert.deepEqual(published, { descriptor });
    assert.equal(await store.hasRepository("team/app"), true);
    for (const reference of ["v1", "latest", one.digest]) {
      const found = await store.resolve("team/app", reference);
      assert.deepEqual(found?.descriptor, descriptor, reference);
      assert.deepEqual(found.bytes, one.bytes);
    }
    await store.putManifest("team/app", MEDIA.manifest, two.bytes, ["latest"]);
    assert.equal((await store.resolve("team/app", "latest"))?.descriptor.digest, two.digest);
    assert.equal((await store.resolve("team/app", "v1"))?.descriptor.digest, one.digest);
    assert.equal(await store.resolve("team/other", one.digest), undefined);
    assert.equal(await store.resolve("team/app", "v2"), undefined);
    assert.equal(await store.resolve("team/app", "-no tag-"), undefined);
    assert.deepEqual(await Array.fromAsync(store.tags("team/app")), ["latest", "v1"]);

    assert.equal(await store.deleteManifest("team/app", "v1"), true);
    assert.equal(await store.deleteManifest("team/app", "v1"), false);
    assert.equal((await store.resolve("team/app", one.digest))?.descriptor.digest, one.digest);
    await store.publish("team/app", MEDIA.manifest, one.bytes, { tags: ["v1", "v3"] });
    assert.equal(await store.deleteManifest("team/app", one.digest), true);
    assert.equal(await store.deleteManifest("team/app", one.digest), false);
    assert.deepEqual(await Array.fromAsync(store.tags("team/app")), ["latest"]);
    assert.equal(await store.resolve("team/app", "v1"), undefined);
    assert.equal(await store.resolve("team/app", one.digest), undefined);
    assert.equal((await store.resolve("team/app", "latest"))?.descriptor.digest, two.digest);
  });

  test("a manifest needs its blobs, right sizes, its digest and valid tags", async ({ store }) => {
    const { bytes, config, layer, digest } = await image(store, "a", "x");
    const publish = (document: unknown, options = {}) =>
      store.publish("a", MEDIA.manifest, encode(document), options);
    const base = { schemaVersion: 2, mediaType: MEDIA.manifest, config, layers: [layer] };
    const absent = { ...layer, digest: digestOf(encode("absent")) };
    await assert.rejects(publish({ ...base, layers: [layer, absent] }), {
      code: "manifest_blob_unknown",
      message: new RegExp(absent.digest),
    });
    await assert.rejects(publish({ ...base, config: { ...config, size: 1 } }), {
      code: "size_invalid",
    });
    await assert.rejects(store.publish("a", MEDIA.manifest, bytes, { digest: absent.digest }), {
      code: "digest_invalid",
    });
    await assert.rejects(store.publish("a", MEDIA.manifest, bytes, { tags: ["ok", "not ok"] }), {
      code: "manifest_invalid",
    });
    await assert.rejects(store.publish("a", MEDIA.index, bytes), { code: "manifest_invalid" });
    await assert.rejects(store.publish("a", MEDIA.manifest, new Uint8Array(4 * 1024 * 1024 + 1)), {
      code: "manifest_too_large",
    });
    await assert.rejects(store.publish("A", MEDIA.manifest, bytes), { code: "name_invalid" });
    assert.equal(await store.hasRepository("a"), false);
    assert.equal(await store.resolve("a", digest), undefined);
    const foreign = { ...absent, mediaType: MEDIA.dockerForeignLayerGzip, urls: ["http://x/y"] };
    await publish({ ...base, layers: [layer, foreign] });
    const long = digestOf(bytes, "sha512");
    await store.publish("a", MEDIA.manifest, bytes, { digest: long, tags: ["long"] });
    assert.equal((await store.resolve("a", "long"))?.descriptor.digest, long);
  });

  test("an index needs its manifests in the same repository", async ({ store }) => {
    const { bytes, digest } = await image(store, "a", "x");
    await store.publish("a", MEDIA.manifest, bytes);
    const index = encode({
      schemaVersion: 2,
      mediaType: MEDIA.index,
      manifests: [{ mediaType: MEDIA.manifest, digest, size: bytes.length }],
    });
    await assert.rejects(store.publish("b", MEDIA.index, index), { code: "manifest_blob_unknown" });
    await store.publish("a", MEDIA.index, index, { tags: ["multi"] });
    assert.equal((await store.resolve("a", "multi"))?.descriptor.mediaType, MEDIA.index);
  });

  test("referrers come with their manifest and go with it", async ({ store }) => {
    const subject = {
      mediaType: MEDIA.manifest,
      digest: digestOf(encode("not there yet")),
      size: 13,
    };
    const annotations = { "org.example.note": "hi" };
    const sbom = await image(store, "a", "s", {
      subject,
      artifactType: "application/sbom",
      annotations,
    });
    const plain = await image(store, "a", "p", { subject });
    const published = await store.publish("a", MEDIA.manifest, sbom.bytes);
    assert.equal(published.subject, subject.digest);
    await store.publish("a", MEDIA.manifest, plain.bytes, { tags: ["plain"] });
    const expected = [
      {
        mediaType: MEDIA.manifest,
        digest: sbom.digest,
        size: sbom.bytes.length,
        artifactType: "application/sbom",
        annotations,
      },
      {
        mediaType: MEDIA.manifest,
        digest: plain.digest,
        size: plain.bytes.length,
        artifactType: MEDIA.config,
      },
    ].sort((a, b) => a.digest < b.digest ? -1 : 1);
    assert.deepEqual(await Array.fromAsync(store.referrers("a", subject.digest)), expected);
    assert.deepEqual(await Array.fromAsync(store.referrers("b", subject.digest)), []);
    await store.deleteManifest("a", plain.digest);
    assert.deepEqual(
      (await Array.fromAsync(store.referrers("a", subject.digest))).map((item) => item.digest),
      [sbom.digest],
    );
  });

  test("a blob in use stays, whichever repository uses it", async ({ store }) => {
    const { bytes, digest, layer } = await image(store, "user/of-it", "x");
    await store.publish("user/of-it", MEDIA.manifest, bytes);
    const inUse = { code: "blob_in_use", message: /user\/of-it/ };
    await assert.rejects(store.deleteBlob("other", layer.digest), inUse);
    await assert.rejects(store.deleteBlob("other", digest), inUse);
    assert.equal(await store.hasBlob("a", layer.digest), true);
    await store.deleteManifest("user/of-it", digest);
    assert.equal(await store.deleteBlob("a", layer.digest), true);
    assert.equal(await store.deleteBlob("a", layer.digest), false);
    assert.equal(await store.stat("a", layer.digest), undefined);
  });

  test("a publish and a delete of its blob never both succeed", async ({ store }) => {
    for (let round = 0; round < 12; round++) {
      const { bytes, digest, layer } = await image(store, "a", `r${round}`);
      const [published, deleted] = await Promise.allSettled([
        store.publish("a", MEDIA.manifest, bytes),
        store.deleteBlob("a", layer.digest),
      ]);
      const both = [published.status, deleted.status];
      assert.ok(both.includes("rejected") && both.includes("fulfilled"), both.join());
      const there = await store.resolve("a", digest) !== undefined;
      assert.equal(there, await store.hasBlob("a", layer.digest));
    }
  });

  test("repositories and tags are listed in byte order, after a name", async ({ store }) => {
    const names = ["a", "a-b", "a.b", "a/b", "a/b-c", "a0", "aa/b", "b__c"];
    for (const name of names.toReversed()) {
      const { bytes } = await image(store, name, "x");
      await store.publish(name, MEDIA.manifest, bytes, { tags: ["b", "B", "0", "_", "b.1"] });
    }
    const repositories = (after?: string) => Array.fromAsync(store.repositories({ after }));
    assert.deepEqual(await repositories(), names);
    for (const [i, after] of names.entries()) {
      assert.deepEqual(await repositories(after), names.slice(i + 1));
    }
    assert.deepEqual(await repositories("a/a"), names.slice(3));
    const tags = (after?: string) => Array.fromAsync(store.tags("a/b", { after }));
    assert.deepEqual(await tags(), ["0", "B", "_", "b", "b.1"]);
    assert.deepEqual(await tags("B"), ["_", "b", "b.1"]);
    assert.deepEqual(await Array.fromAsync(store.tags("none")), []);
  });

  test("uploads, manifests and tags outlive a restart", async (under) => {
    const { bytes, digest } = await image(under.store, "a/b", "x");
    await under.store.publish("a/b", MEDIA.manifest, bytes, { tags: ["v1"] });
    const upload = await under.store.startUpload("a/b");
    await upload.append(streamOf("hello "));
    under.store = await under.reopen!();
    assert.equal((await under.store.resolve("a/b", "v1"))?.descriptor.digest, digest);
    const again = await under.store.openUpload("a/b", upload.id);
    assert.equal(again?.offset, 6);
    await again.append(streamOf("world"), { at: 6 });
    await again.commit(digestOf(encode("hello world")));
  }, !durable);
}
