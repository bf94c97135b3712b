/** What a collection tells: while it goes on, and at its end. */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import type { GcProgress } from "../../lib/store/gc/collect.ts";
import { silent } from "../../lib/base/log.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { createContentStore } from "../../lib/store/content.ts";
import { blobKey } from "../../lib/store/keys.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { pushImage, smallImage } from "../fixtures/small_images.ts";
import { wrapStore } from "../fixtures/wrapped_store.ts";

const DAY = 24 * 3_600_000;

/** `days`: for how long each upload has rested. */
function restedStore(objects: ObjectStore, exclusive: boolean, days: Record<string, number>) {
  const wrapped = wrapStore(objects, { exclusive });
  const uploads: ObjectStore["uploads"] = {
    ...wrapped.uploads,
    async *list(call) {
      for await (const one of objects.uploads.list(call)) {
        yield { ...one, modified: new Date(Date.now() - days[one.id] * DAY) };
      }
    },
  };
  return createContentStore({ ...wrapped, uploads }, { log: silent, patienceMs: 20 });
}

for (const exclusive of [true, false]) {
  const test = (name: string, fn: () => Promise<void>) =>
    Deno.test(`gc, ${exclusive ? "one process" : "many processes"}: ${name}`, fn);

  test("uploads that have rested for a week go, except in a dry run", async () => {
    const objects = openMemStore();
    const days = { older: 7.1, younger: 6.9 };
    for (const id of Object.keys(days)) await (await objects.uploads.create(id)).close();
    const store = restedStore(objects, exclusive, days);
    const ids = async () =>
      (await Array.fromAsync(objects.uploads.list())).map(({ id }) => id).sort();
    assert.equal((await store.upkeep.collect({ dryRun: true })).uploadsExpired, 0);
    assert.deepEqual(await ids(), ["older", "younger"]);
    assert.equal((await store.upkeep.collect()).uploadsExpired, 1);
    assert.deepEqual(await ids(), ["younger"]);
  });

  test("it tells its phases, the blobs that it saw and those that it removed", async () => {
    const objects = openMemStore();
    const store = createContentStore(wrapStore(objects, { exclusive }), {
      log: silent,
      patienceMs: 20,
    });
    const image = smallImage("kept", ["layer"]);
    await pushImage(store, "app", image, ["v1"]);
    const garbage = new TextEncoder().encode("garbage");
    await objects.put(blobKey(digestOf(garbage)), garbage);
    const told: GcProgress[] = [];
    const onProgress = (one: GcProgress) => void told.push(one);
    const result = await store.upkeep.collect({ untagged: "drop", idleMs: 0, onProgress });
    assert.deepEqual([...new Set(told.map(({ phase }) => phase))], ["manifests", "mark", "sweep"]);
    assert.deepEqual(told[0], { phase: "manifests", blobs: 0, blobsDeleted: 0 });
    // The manifest, its configuration and its layer, and what nobody needs.
    assert.deepEqual(told.at(-1), { phase: "sweep", blobs: 4, blobsDeleted: 1 });
    const { durationMs, ...counts } = result;
    assert.ok(Number.isInteger(durationMs) && durationMs >= 0);
    assert.deepEqual(counts, {
      blobsDeleted: 1,
      bytesReclaimed: garbage.length,
      manifestsDeleted: 0,
      buildCacheBytesReclaimed: 0,
      blobsLeased: 0,
      uploadsExpired: 0,
    });
  });

  test("one that is aborted ends with the reason, and removes nothing more", async () => {
    const objects = openMemStore();
    const store = createContentStore(wrapStore(objects, { exclusive }), {
      log: silent,
      patienceMs: 20,
    });
    const garbage = new TextEncoder().encode("garbage");
    await objects.put(blobKey(digestOf(garbage)), garbage);
    const abort = new AbortController();
    const reason = new Error("the server is stopping");
    const onProgress = ({ phase }: GcProgress) => phase === "mark" && abort.abort(reason);
    const options = { idleMs: 0, signal: abort.signal, onProgress };
    await assert.rejects(store.upkeep.collect(options), reason);
    assert.ok(await objects.stat(blobKey(digestOf(garbage))));
  });
}
