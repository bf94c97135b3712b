/** Indexes some of whose manifests are not here: collections, deletes and checks cope with them. */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../../lib/base/log.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { MEDIA } from "../../lib/oci/types.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import { assertImage, assertSound, pushImage, smallImage } from "../fixtures/small_images.ts";
import { wrapStore } from "../fixtures/wrapped_store.ts";

const here = smallImage("here", ["one", "shared"]);
const late = smallImage("late", ["two", "shared"]);
const never = smallImage("never", ["three"]);

const index = new TextEncoder().encode(JSON.stringify({
  schemaVersion: 2,
  mediaType: MEDIA.index,
  manifests: [here, late, never].map(({ digest, bytes }) => ({
    mediaType: MEDIA.manifest,
    digest,
    size: bytes.length,
  })),
}));

const drop = (store: ContentStore) => store.upkeep.collect({ untagged: "drop", idleMs: 0 });

for (const exclusive of [true, false]) {
  const test = (name: string, fn: (store: ContentStore) => Promise<void>) =>
    Deno.test(`sparse index, ${exclusive ? "one process" : "many processes"}: ${name}`, async () => {
      const objects = wrapStore(openMemStore(), { exclusive });
      await using store = createContentStore(objects, { log: silent, patienceMs: 20 });
      await pushImage(store, "app", here, []);
      await fn(store);
    });

  const publish = (store: ContentStore) =>
    store.publish("app", MEDIA.index, index, { tags: ["multi"], sparse: "indexes" });

  test("refused unless it is asked for; an image never may be", async (store) => {
    const unknown = { code: "manifest_blob_unknown" };
    await assert.rejects(store.publish("app", MEDIA.index, index), unknown);
    await assert.rejects(
      store.publish("app", MEDIA.manifest, never.bytes, { sparse: "indexes" }),
      unknown,
    );
    await publish(store);
    assert.deepEqual((await store.resolve("app", "multi"))?.bytes, index);
    await assertSound(store);
  });

  test("an image may be, where all may: what is here of it stays", async (store) => {
    await store.publish("app", MEDIA.manifest, never.bytes, { tags: ["part"], sparse: "all" });
    await assertSound(store);
    const { digest, size } = never.layers[0];
    const bytes = new TextEncoder().encode(never.texts[1]);
    await store.putBlob("app", { digest, size }, ReadableStream.from([bytes]));
    await drop(store);
    assert.ok(await store.stat("app", digest));
    await store.deleteManifest("app", never.digest);
    await drop(store);
    assert.equal((await store.upkeep.usage()).blobs, 0);
  });

  test("what is here stays, what comes later stays, until the tag goes", async (store) => {
    await publish(store);
    assert.equal((await drop(store)).manifestsDeleted, 0);
    await assertImage(store, "app", here);
    await pushImage(store, "app", late, []);
    assert.equal((await drop(store)).manifestsDeleted, 0);
    await assertImage(store, "app", here);
    await assertImage(store, "app", late);
    await assertSound(store);
    await store.deleteManifest("app", "multi");
    assert.equal((await drop(store)).manifestsDeleted, 3);
    assert.equal((await store.upkeep.usage()).blobs, 0);
  });

  test("its manifests are deleted and pushed again; a blob in use stays", async (store) => {
    await publish(store);
    await assert.rejects(store.deleteBlob("app", here.layers[0].digest), { code: "blob_in_use" });
    assert.equal(await store.deleteManifest("app", never.digest), false);
    assert.equal(await store.deleteBlob("app", never.digest), false);
    assert.equal(await store.deleteManifest("app", here.digest), true);
    await assertSound(store);
    await pushImage(store, "app", here, []);
    await drop(store);
    await assertImage(store, "app", here);
    assert.equal(await store.deleteManifest("app", digestOf(index)), true);
    assert.equal(await store.resolve("app", "multi"), undefined);
    await drop(store);
    await assertSound(store);
    assert.equal((await store.upkeep.usage()).blobs, 0);
  });
}
