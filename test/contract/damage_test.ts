/** Stored bytes that are no longer what they were: who is told, and what makes them right again. */
import assert from "node:assert/strict";
import { openFsStore } from "../../backends/store/fs.ts";
import { openMemStore } from "../../backends/store/mem.ts";
import { openBucket } from "../../backends/store/shared/store.ts";
import { silent } from "../../lib/base/log.ts";
import { sleep } from "../../lib/base/sleep.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import { blobKey, quarantineKey } from "../../lib/store/keys.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { setClock } from "../fixtures/set_clock.ts";
import { MemoryBucket, MemoryService } from "../fixtures/memory_bucket.ts";
import { assertImage, assertSound, pushImage, smallImage } from "../fixtures/small_images.ts";
import { wrapStore } from "../fixtures/wrapped_store.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const large = (seed: string) => encode(seed.repeat(200_000));

interface Under {
  objects: ObjectStore;
  store: ContentStore;
  /** A restart of the process. */
  again: () => Promise<ContentStore>;
}

async function overFs(work: (under: Under) => Promise<void>) {
  const root = await Deno.makeTempDir({ prefix: "svc-damage-" });
  const objects = await openFsStore(root);
  try {
    const open = () => createContentStore(wrapStore(objects, {}), { log: silent });
    await work({ objects, store: open(), again: () => Promise.resolve(open()) });
  } finally {
    await objects[Symbol.asyncDispose]();
    await Deno.remove(root, { recursive: true });
  }
}

async function overMem(work: (under: Under) => Promise<void>) {
  const objects = openMemStore();
  const open = () => createContentStore(wrapStore(objects, {}), { log: silent });
  await work({ objects, store: open(), again: () => Promise.resolve(open()) });
}

async function overBucket(work: (under: Under) => Promise<void>) {
  const objects = await openBucket(new MemoryBucket(new MemoryService()));
  const open = () => createContentStore(wrapStore(objects, {}), { log: silent, patienceMs: 20 });
  await work({ objects, store: open(), again: () => Promise.resolve(open()) });
}

async function upload(store: ContentStore, bytes: Uint8Array) {
  const pushed = await store.startUpload("app");
  await pushed.append(ReadableStream.from([bytes]));
  await pushed.commit(digestOf(bytes));
}

async function read(store: ContentStore, digest: string) {
  const body = await store.get("app", digest);
  return body && await new Response(body.stream() as BodyInit).bytes();
}

const damagedBy = {
  "cut short": (bytes: Uint8Array) => bytes.slice(0, -1),
  "of the same size": (bytes: Uint8Array) => bytes.with(0, bytes[0] ^ 1),
};

for (const [name, over] of Object.entries({ fs: overFs, mem: overMem, bucket: overBucket })) {
  const test = (title: string, work: (under: Under) => Promise<void>) =>
    Deno.test(`damage over ${name}: ${title}`, () => over(work));

  for (const [how, damaged] of Object.entries(damagedBy)) {
    for (const bytes of [encode("a small blob"), large("x")]) {
      test(`a blob of ${bytes.length} bytes, ${how}, is pushed again and right`, async (under) => {
        const { store, objects } = under;
        const digest = digestOf(bytes);
        await upload(store, bytes);
        await objects.put(blobKey(digest), damaged(bytes));
        const later = await under.again();
        if (name === "bucket" && how === "of the same size") {
          // Told so: reading all of an upload's target again would cost as much as the upload.
          await Array.fromAsync(later.upkeep.verify());
        }
        await upload(later, bytes);
        assert.deepEqual(await read(later, digest), bytes);
        assert.deepEqual(await read(await under.again(), digest), bytes);
      });
    }
  }

  test("what the server itself stores looks at the size of what is there", async (under) => {
    for (const bytes of [encode("a small blob"), large("y")]) {
      const digest = digestOf(bytes);
      await upload(under.store, bytes);
      await under.objects.put(blobKey(digest), bytes.slice(1));
      const store = await under.again();
      const body = ReadableStream.from([bytes]);
      await store.putBlob("app", { digest, size: bytes.length }, body);
      assert.deepEqual(await read(store, digest), bytes);
    }
  });

  test("told damaged, it is not there for anyone, after a restart too", async (under) => {
    const bytes = large("z");
    const digest = digestOf(bytes);
    await upload(under.store, bytes);
    await under.objects.put(blobKey(digest), damagedBy["of the same size"](bytes));
    await Array.fromAsync(under.store.upkeep.verify());
    for (const store of [under.store, await under.again()]) {
      assert.equal(await store.get("app", digest), undefined);
      assert.equal(await store.stat("app", digest, { probe: true }), undefined);
      assert.equal(await store.hasBlob("app", digest), false);
      assert.equal(await store.mountBlob!("other", digest, "app"), false);
    }
    const store = await under.again();
    await store.putBlob("app", { digest, size: bytes.length }, ReadableStream.from([bytes]));
    assert.deepEqual(await read(store, digest), bytes);
    assert.deepEqual(await read(await under.again(), digest), bytes);
    assert.deepEqual(await Array.fromAsync(under.objects.list("damaged/")), []);
  });

  test("another size than the one just stored, or read as a whole, is told", async (under) => {
    const bytes = large("w");
    const digest = digestOf(bytes);
    await upload(under.store, bytes);
    await under.objects.put(blobKey(digest), bytes.slice(1));
    assert.equal(await under.store.get("app", digest), undefined);
    const other = large("v");
    await upload(under.store, other);
    await under.objects.put(
      blobKey(digestOf(other)),
      damagedBy["of the same size"](other),
    );
    await assert.rejects(read(under.store, digestOf(other)), { code: "digest_invalid" });
    assert.equal(await under.store.get("app", digestOf(other)), undefined);
    const noted = () => Array.fromAsync(under.objects.list("damaged/"));
    while ((await noted()).length < 2) await sleep(1);
  });

  test("a manifest whose bytes or whose blob are damaged asks for what is wrong", async (under) => {
    const image = smallImage("one", ["first layer"]);
    await pushImage(under.store, "app", image, ["v1"]);
    const layer = blobKey(image.layers[0].digest);
    await under.objects.put(layer, encode("first lay"));
    let store = await under.again();
    // The client was told that the layer is there.
    await assert.rejects(store.publish("app", undefined, image.bytes, { tags: ["v1"] }), {
      code: "manifest_blob_unknown",
    });
    await under.objects.put(blobKey(image.digest), image.bytes.with(0, 0));
    store = await under.again();
    assert.equal(await store.resolve("app", "v1"), undefined);
    await pushImage(store, "app", image, ["v1"]);
    await assertImage(store, "app", image, "v1");
    await assertSound(store);
  });

  test("the walk in the background moves damage aside, tells it and fetches it", async (under) => {
    const { store, objects } = under;
    const images = ["a", "b"].map((name) => smallImage(name, [`layer ${name}`]));
    for (const image of images) await pushImage(store, "app", image, [image.texts[1].slice(-1)]);
    const [key, lost] = images.map(({ layers }) => blobKey(layers[0].digest));
    await objects.put(key, encode("layer A"));
    await objects.put(lost, encode("layer B"));
    const asked: string[] = [];
    {
      await using _scrub = store.upkeep.scrub({
        withinMs: 500,
        log: silent,
        refetch: async (repository, digest) => {
          asked.push(repository);
          if (digest !== images[0].layers[0].digest) return false;
          const bytes = encode("layer a");
          const body = ReadableStream.from([bytes]);
          await store.putBlob(repository, { digest, size: bytes.length }, body);
          return true;
        },
      });
      while (!(await store.upkeep.scrubbed())?.finished) await sleep(10);
    }
    const status = (await store.upkeep.scrubbed())!;
    assert.deepEqual(asked, ["app", "app"]);
    assert.deepEqual(
      new Set(
        status.damaged.map(({ key, movedTo, refetched }) => `${key} ${movedTo} ${refetched}`),
      ),
      new Set([`${key} ${quarantineKey(key)} true`, `${lost} ${quarantineKey(lost)} false`]),
    );
    assert.equal(status.blobs, 6);
    assert.equal((await store.upkeep.usage()).quarantined, 2);
    await assertImage(store, "app", images[0]);
    assert.equal(await store.get("app", images[1].layers[0].digest), undefined);
    await pushImage(store, "app", images[1], []);
    await assertSound(store);
  });

  test("the walk goes on after a restart, and reads nothing twice in a period", async (under) => {
    const texts = Array.from({ length: 20 }, (_, n) => `blob ${n}`);
    for (const text of texts) await upload(under.store, encode(text));
    const read: string[] = [];
    const counting = () =>
      createContentStore(
        wrapStore(under.objects, {
          before: ({ name, key }) => {
            if (name === "get" && key.startsWith("blobs/")) read.push(key);
            return Promise.resolve();
          },
        }),
        { log: silent },
      );
    const withinMs = 1_500;
    const began = performance.now();
    {
      await using _scrub = counting().upkeep.scrub({ withinMs, log: silent });
      while (read.length < 5) await sleep(5);
    }
    const before = read.length;
    assert.ok(before < texts.length, "it is slow");
    {
      const store = counting();
      await using _scrub = store.upkeep.scrub({ withinMs, log: silent });
      while (!(await store.upkeep.scrubbed())?.finished) await sleep(10);
      assert.ok(performance.now() - began > withinMs / 2, "it takes its time");
      // The one that the end cut short is read again.
      assert.ok(read.length <= texts.length + 1, `${read.length} readings`);
      assert.equal(new Set(read).size, texts.length);
    }
  });

  test("a clock that is set back by an hour does not keep the walk waiting", async ({ store }) => {
    await upload(store, encode("a blob"));
    const withinMs = 200;
    const round = async (over: (began: string) => boolean) => {
      await using _scrub = store.upkeep.scrub({ withinMs, log: silent });
      for (;;) {
        const status = await store.upkeep.scrubbed();
        if (status?.finished && over(status.began)) return status.began;
        await sleep(10);
      }
    };
    let before = "";
    {
      using _ahead = setClock(3600_000);
      before = await round(() => true);
    }
    await round((began) => began < before);
  });

  test("a push that counts on damage keeps it from being moved, and mends it", async (under) => {
    const { store, objects } = under;
    const bytes = encode("in use");
    const digest = digestOf(bytes);
    await upload(store, bytes);
    // Leased since: the client may push a manifest that names it.
    await objects.put(blobKey(digest), encode("IN USE"));
    await Array.fromAsync(store.upkeep.verify({ quarantine: true }));
    assert.ok(await objects.stat(blobKey(digest)));
    assert.equal(await store.get("app", digest), undefined);
    await upload(store, bytes);
    assert.deepEqual(await read(store, digest), bytes);
  });
}

Deno.test("damage over fs: an adopted file takes the place of a damaged one", () =>
  overFs(async ({ objects }) => {
    const store = createContentStore(objects, { log: silent });
    const folder = await Deno.makeTempDir({ prefix: "svc-damage-" });
    try {
      const bytes = encode("adopted layer");
      const digest = digestOf(bytes);
      const path = `${folder}/layer`;
      await Deno.writeFile(path, bytes);
      assert.equal(await store.adoptBlob!("app", { digest, size: bytes.length }, path), true);
      await objects.put(blobKey(digest), bytes.slice(3));
      const later = createContentStore(objects, { log: silent });
      if (!await later.adoptBlob!("app", { digest, size: bytes.length }, path)) return;
      assert.deepEqual(await read(later, digest), bytes);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }));
