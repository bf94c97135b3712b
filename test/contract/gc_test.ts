/** What a collection removes and what it keeps, step by step. */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../../lib/base/log.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { MEDIA } from "../../lib/oci/types.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import { blobKey, manifestKey, rescuedPrefix } from "../../lib/store/keys.ts";
import { assertImage, assertSound, pushImage, smallImage } from "../fixtures/small_images.ts";
import { wrapStore } from "../fixtures/wrapped_store.ts";

const encode = (text: string) => new TextEncoder().encode(text);

function open(options: { exclusive?: boolean; idleMs?: number } = {}) {
  const objects = openMemStore();
  const wrapped = wrapStore(objects, { exclusive: options.exclusive });
  return {
    objects,
    store: createContentStore(wrapped, { log: silent, patienceMs: 20, ...options }),
  };
}

async function putText(store: ContentStore, repository: string, text: string): Promise<string> {
  const bytes = encode(text);
  const digest = digestOf(bytes);
  await store.putBlob(repository, { digest, size: bytes.length }, ReadableStream.from([bytes]));
  return digest;
}

const index = (...images: ReturnType<typeof smallImage>[]) =>
  encode(JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: images.map(({ digest, bytes }) => ({
      mediaType: MEDIA.manifest,
      digest,
      size: bytes.length,
    })),
  }));

for (const exclusive of [true, false]) {
  const test = (name: string, fn: () => Promise<void>) =>
    Deno.test(`gc, ${exclusive ? "one process" : "many processes"}: ${name}`, fn);

  test("a publication that began before the collection is not lost", async () => {
    const objects = openMemStore();
    const image = smallImage("slow", ["layer"]);
    const reached = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const store = createContentStore(
      wrapStore(objects, {
        exclusive,
        before: async ({ name, key }) => {
          if (name !== "put" || key !== manifestKey("app", image.digest)) return;
          reached.resolve();
          await go.promise;
        },
      }),
      { log: silent },
    );
    const pushing = pushImage(store, "app", image, ["v1"]);
    await reached.promise;
    const collecting = store.upkeep.collect({ idleMs: 0 });
    await new Promise((resolve) => setTimeout(resolve, 20));
    go.resolve();
    await pushing;
    await collecting;
    await assertImage(store, "app", image, "v1");
  });

  test("what a push was told is kept, until it rests for too long", async () => {
    const { store } = open({ exclusive });
    const digest = await putText(store, "app", "a layer whose manifest is still to come");
    assert.deepEqual(
      await store.upkeep.collect().then((r) => [r.blobsDeleted, r.blobsLeased]),
      [0, 1],
    );
    assert.ok(await store.stat("app", digest));
    assert.equal((await store.upkeep.collect({ idleMs: 0 })).blobsDeleted, 1);
    assert.equal(await store.stat("app", digest, { probe: true }), undefined);
    // A HEAD is told, and so kept; what no client was told is not.
    const image = smallImage("x", ["layer"]);
    await pushImage(store, "app", image, ["v1"]);
    await store.stat("other", image.layers[0].digest, { probe: true });
    await store.deleteManifest("app", image.digest);
    assert.equal((await store.upkeep.collect()).blobsDeleted, 2);
    assert.ok(await store.stat("app", image.layers[0].digest));
  });

  test("a dry run tells what a collection would do, and does nothing", async () => {
    const { store } = open({ exclusive });
    const [kept, dropped] = [smallImage("kept", ["shared"]), smallImage("gone", ["shared", "own"])];
    await pushImage(store, "app", kept, ["kept"]);
    await pushImage(store, "app", dropped, ["gone"]);
    await store.deleteManifest("app", "gone");
    const options = { untagged: "drop", idleMs: 0 } as const;
    const counts = (dryRun: boolean) =>
      store.upkeep.collect({ ...options, dryRun }).then((result) => [
        result.manifestsDeleted,
        result.blobsDeleted,
        result.bytesReclaimed,
      ]);
    const bytes = dropped.bytes.length + dropped.config.size + dropped.layers[1].size;
    assert.deepEqual(await counts(true), [1, 3, bytes]);
    await assertImage(store, "app", dropped);
    assert.deepEqual(await counts(false), [1, 3, bytes]);
    assert.deepEqual(await counts(false), [0, 0, 0]);
    await assertImage(store, "app", kept, "kept");
    await assertSound(store);
  });

  test("an index keeps its manifests, a subject its referrers", async () => {
    const { store } = open({ exclusive });
    const [one, two] = [smallImage("one", ["1"]), smallImage("two", ["2"])];
    await pushImage(store, "app", one, []);
    await pushImage(store, "app", two, []);
    // Pushed by digest a moment ago: their index is still to come.
    assert.equal((await store.upkeep.collect({ untagged: "drop" })).manifestsDeleted, 0);
    const bytes = index(one, two);
    await store.publish("app", MEDIA.index, bytes, { tags: ["multi"] });
    const signature = smallImage("signature", ["signed"], {
      subject: { mediaType: MEDIA.index, digest: digestOf(bytes), size: bytes.length },
    });
    await pushImage(store, "app", signature, []);
    const drop = () => store.upkeep.collect({ untagged: "drop", idleMs: 0 });
    assert.equal((await drop()).manifestsDeleted, 0);
    for (const image of [one, two, signature]) await assertImage(store, "app", image);
    await store.deleteManifest("app", "multi");
    // Kept as long as they are young enough.
    const young = await store.upkeep.collect({ untagged: 3_600_000, idleMs: 0 });
    assert.equal(young.manifestsDeleted, 0);
    const { manifestsDeleted, blobsDeleted } = await drop();
    assert.deepEqual([manifestsDeleted, blobsDeleted], [4, 10]);
    assert.deepEqual(await Array.fromAsync(store.referrers("app", digestOf(bytes))), []);
    assert.equal((await store.upkeep.usage()).blobs, 0);
  });

  test("verify finds damage and moves it aside; a push heals", async () => {
    const { objects, store } = open({ exclusive });
    const image = smallImage("x", ["layer"]);
    await pushImage(store, "app", image, ["v1"]);
    await assertSound(store);
    const key = blobKey(image.layers[0].digest);
    await objects.put(key, encode("rotten"));
    const problems = async (quarantine: boolean) =>
      (await Array.fromAsync(store.upkeep.verify({ quarantine })))
        .flatMap((event) => event.type === "problem" ? [[event.kind, event.movedTo]] : []);
    assert.deepEqual(await problems(false), [["blob", undefined]]);
    const movedTo = `quarantine/${key.replaceAll("/", "%2F")}`;
    assert.deepEqual(await problems(true), [["blob", movedTo], ["manifest", undefined]]);
    assert.equal((await store.upkeep.usage()).quarantined, 1);
    await pushImage(store, "app", image, ["v1"]);
    await assertSound(store);
    await objects.delete(manifestKey("app", image.digest));
    assert.deepEqual(await problems(false), [["tag", undefined]]);
  });

  test("verify tells of an index whose manifest a client deleted", async () => {
    const { objects, store } = open({ exclusive });
    const [one, two] = [smallImage("one", ["1"]), smallImage("two", ["2"])];
    for (const image of [one, two]) await pushImage(store, "app", image, []);
    const bytes = index(one, two);
    await store.publish("app", MEDIA.index, bytes, { tags: ["multi"] });
    const found = async () =>
      (await Array.fromAsync(store.upkeep.verify())).filter(({ type }) => type !== "progress");
    assert.equal((await found()).length, 1);
    await store.deleteManifest("app", two.digest);
    for (const _ of ["its layers are there", "and gone"]) {
      const [warning, end] = await found();
      assert.equal(warning.type, "warning");
      assert.equal(warning.type === "warning" && warning.key, manifestKey("app", digestOf(bytes)));
      assert.match(JSON.stringify(warning), new RegExp(`${two.digest}, which was deleted`));
      assert.equal(end.type === "result" && end.result.problems, 0);
      assert.equal(end.type === "result" && end.result.warnings, 1);
      await store.upkeep.collect({ idleMs: 0 });
    }
    await objects.put(blobKey(digestOf(bytes)), encode("rotten"));
    assert.equal((await found())[0].type, "problem");
    await objects.put(blobKey(digestOf(bytes)), bytes);
    await pushImage(store, "app", two, []);
    assert.equal((await found()).length, 1);
  });

  test("one collection at a time", async () => {
    const { store } = open({ exclusive });
    const first = store.upkeep.collect();
    await assert.rejects(store.upkeep.collect(), { code: "conflict" });
    await first;
    await store.upkeep.collect();
  });
}

Deno.test("gc: claims outlive the process that made them, and go when they are old", async () => {
  const { objects, store } = open({ exclusive: false });
  const digest = await putText(store, "app", "told by a process that is dead");
  const other = createContentStore(wrapStore(objects, { exclusive: false }), { log: silent });
  assert.equal((await other.upkeep.collect()).blobsDeleted, 0);
  assert.ok(await other.stat("app", digest));
  assert.equal((await other.upkeep.collect({ idleMs: 0 })).blobsDeleted, 1);
});

Deno.test("gc: a copy goes when the blob is where it belongs, and nobody condemns it there", async () => {
  const { objects, store } = open({ exclusive: false });
  const image = smallImage("x", ["layer"]);
  await pushImage(store, "app", image, ["v1"]);
  const { digest } = image.layers[0];
  const key = blobKey(digest);
  await objects.put("condemned/of-the-dead", encode(JSON.stringify({ keys: [key] })));
  assert.ok(await store.stat("other", digest, { probe: true }));
  const copies = async (options: { idleMs?: number; dryRun?: boolean } = { idleMs: 0 }) => {
    await store.upkeep.collect(options);
    return (await store.upkeep.usage()).copies;
  };
  assert.equal(await copies(), 1, "it is condemned");
  await objects.delete("condemned/of-the-dead");
  const [blob] = [await new Response((await objects.get(key))!.stream()).bytes()];
  await objects.delete(key);
  assert.equal(await copies(), 1, "it is the only one");
  await objects.put(key, blob);
  assert.equal(await copies({ idleMs: 0, dryRun: true }), 1);
  assert.equal(await copies(), 0);
  await assertImage(store, "app", image, "v1");
});

Deno.test("gc: a copy that no manifest needs is garbage like its blob", async () => {
  const { objects, store } = open({ exclusive: false });
  const bytes = encode("garbage");
  await objects.put(`${rescuedPrefix(digestOf(bytes))}one`, bytes);
  const counts = async (dryRun: boolean) => {
    const result = await store.upkeep.collect({ idleMs: 0, dryRun });
    return [result.blobsDeleted, result.bytesReclaimed, (await store.upkeep.usage()).copies];
  };
  assert.deepEqual(await counts(true), [1, bytes.length, 1]);
  assert.deepEqual(await counts(false), [1, bytes.length, 0]);
});

Deno.test("gc: a blob that a dead collector condemned is copied, and served from the copy", async () => {
  const { objects, store } = open({ exclusive: false });
  const image = smallImage("x", ["layer"]);
  await pushImage(store, "app", image, ["v1"]);
  const key = blobKey(image.layers[0].digest);
  await objects.put("condemned/of-the-dead", encode(JSON.stringify({ keys: [key] })));
  assert.ok(await store.stat("other", image.layers[0].digest, { probe: true }));
  assert.equal((await store.upkeep.usage()).copies, 1);
  // What the dead one was about to do comes late.
  await objects.delete(key);
  await assertImage(store, "app", image, "v1");
  await assertSound(store);
  await objects.delete("condemned/of-the-dead");
  await pushImage(store, "app", image, ["v2"]);
  await store.upkeep.collect({ idleMs: 0 });
  await assertImage(store, "app", image, "v2");
});

/** Objects that several processes share, and a clock of theirs that moves when it is told to. */
function sharedStore() {
  const objects = openMemStore();
  let now = 0;
  return {
    objects,
    /** Another process's view. */
    open: () => {
      const wrapped = wrapStore(objects, { exclusive: false });
      return createContentStore(wrapped, { log: silent, patienceMs: 20, now: () => now });
    },
    wait: (minutes: number) => void (now += minutes * 60_000),
  };
}

Deno.test("gc: a dead collector's condemnation goes once it was seen for long enough", async () => {
  const { objects, open, wait } = sharedStore();
  const store = open();
  const keys = [manifestKey("app", smallImage("x", ["layer"]).digest)];
  await objects.put("condemned/of-the-dead", encode(JSON.stringify({ keys })));
  let garbage = 0;
  const collect = async (of = store) => {
    const bytes = encode(`garbage ${garbage++}`);
    await objects.put(blobKey(digestOf(bytes)), bytes);
    await of.upkeep.collect({ idleMs: 0 });
    return await objects.stat("condemned/of-the-dead") === undefined;
  };
  assert.equal(await collect(), false, "it is seen for the first time");
  wait(59);
  assert.equal(await collect(), false);
  wait(1);
  // What one process has seen is no other's knowledge.
  assert.equal(await collect(open()), false);
  assert.equal(await collect(), true);
});

Deno.test("gc: a collector that was taken for dead deletes nothing more", async () => {
  const objects = openMemStore();
  const garbage = encode("garbage");
  let ended = false;
  const store = createContentStore(
    wrapStore(objects, {
      exclusive: false,
      before: async ({ name, key }) => {
        // r4 is over: the next is r5.
        if (name !== "list" || key !== "manifests/" || ended) return;
        for await (const entry of objects.list("condemned/")) {
          if (!("key" in entry)) continue;
          ended = true;
          await objects.delete(entry.key);
        }
      },
    }),
    { log: silent },
  );
  await objects.put(blobKey(digestOf(garbage)), garbage);
  await assert.rejects(store.upkeep.collect({ idleMs: 0 }), { code: "conflict" });
  assert.ok(ended);
  assert.ok(await objects.stat(blobKey(digestOf(garbage))));
  assert.equal((await store.upkeep.collect({ idleMs: 0 })).blobsDeleted, 1);
});

Deno.test("gc: a publication of a dead process is given up once it was seen for long enough", async () => {
  const { objects, open, wait } = sharedStore();
  const store = open();
  const image = smallImage("of the dead", ["layer"]);
  const bytes = encode("of the dead");
  await objects.put(blobKey(digestOf(bytes)), bytes);
  const keys = [blobKey(digestOf(bytes))];
  await objects.put("claims/of-the-dead", encode(JSON.stringify({ kind: "intent", keys })));
  const deleted = async (of = store) => (await of.upkeep.collect()).blobsDeleted;
  wait(60);
  assert.equal(await deleted(), 0, "it is seen for the first time");
  wait(0.05);
  assert.equal(await deleted(), 0);
  // What one process has seen is no other's knowledge.
  const other = open();
  assert.equal(await deleted(other), 0);
  wait(0.05);
  assert.equal(await deleted(other), 0);
  assert.equal(await deleted(), 1);
  assert.equal(await objects.stat("claims/of-the-dead"), undefined);
  await pushImage(store, "app", image, ["v1"]);
  await assertSound(store);
});

Deno.test("gc: a delete waits for a dead server's claim, and no longer than to see that it is dead", async () => {
  const objects = openMemStore();
  const open = () =>
    createContentStore(wrapStore(objects, { exclusive: false }), {
      log: silent,
      // As long as a loaded machine may take to look twice.
      patienceMs: 60_000,
      aliveMs: 150,
    });
  const image = smallImage("x", ["layer"]);
  await pushImage(open(), "app", image, ["v1"]);
  const keys = [manifestKey("app", image.digest)];
  await objects.put("claims/of-the-dead", encode(JSON.stringify({ kind: "intent", keys })));
  await objects.put("beats/of-the-dead", new Uint8Array());
  assert.equal(await open().deleteManifest("app", image.digest), true);
  assert.equal(await objects.stat("claims/of-the-dead"), undefined);
  assert.equal(await objects.stat("beats/of-the-dead"), undefined);
});

Deno.test("gc: a push that lasts keeps its claim, and a delete says so", async () => {
  const objects = openMemStore();
  const go = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  // A process that stands still for that long counts as dead.
  const options = { log: silent, patienceMs: 20, aliveMs: 3_000 };
  const image = smallImage("slow", ["layer"]);
  const slow = createContentStore(
    wrapStore(objects, {
      exclusive: false,
      before: async ({ name, key }) => {
        if (name !== "put" || key !== "tags/app/v2") return;
        reached.resolve();
        await go.promise;
      },
    }),
    options,
  );
  const other = createContentStore(wrapStore(objects, { exclusive: false }), options);
  await pushImage(other, "app", image, ["v1"]);
  const pushing = slow.publish("app", MEDIA.manifest, image.bytes, { tags: ["v2"] });
  await reached.promise;
  // It waits for as long as it takes to see two claims die, and sees this one live on.
  await assert.rejects(other.deleteManifest("app", image.digest), { code: "unavailable" });
  go.resolve();
  await pushing;
  await assertImage(other, "app", image, "v2");
  assert.equal(await other.deleteManifest("app", image.digest), true);
  await slow[Symbol.asyncDispose]();
  assert.deepEqual(await Array.fromAsync(objects.list("beats/")), []);
});
