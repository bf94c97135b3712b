/** What the store in a bucket must do on every kind of service, beyond the contracts of all stores. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { Bucket } from "../../backends/store/shared/bucket.ts";
import { probeBucket } from "../../backends/store/shared/doctor.ts";
import { PART } from "../../backends/store/shared/upload_state.ts";
import { silent } from "../../lib/base/log.ts";
import type { Digest } from "../../lib/oci/types.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { contentStoreContract } from "./content_store.ts";
import { objectStoreContract } from "./object_store.ts";

export interface BucketService {
  /** A value of SVC_STORAGE in a folder that nobody else uses. */
  location: () => string;
  bucket: (location: string) => Bucket;
  open: (location: string) => Promise<ObjectStore>;
  /** What a location holds that is not listed as an object. */
  hidden?: (location: string) => Promise<string[]>;
  /** Operations of the doctor, with a substitute, that this stand-in of the service has not. */
  lacks?: readonly string[];
}

export const random = (size: number) => {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += 65536) crypto.getRandomValues(bytes.subarray(at, at + 65536));
  return bytes;
};
export const sha256 = (bytes: Uint8Array): Digest =>
  `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
export const streamOf = (bytes: Uint8Array) =>
  ReadableStream.from((function* () {
    for (let at = 0; at < bytes.length; at += 300_000) yield bytes.slice(at, at + 300_000);
  })());
export const read = async (body: { stream(): ReadableStream<Uint8Array> } | undefined) =>
  new Uint8Array(await new Response(body!.stream() as BodyInit).arrayBuffer());
export const content = (objects: ObjectStore) => createContentStore(objects, { log: silent });

/** What the bucket holds under a location, besides the store's mark and what comes and goes. */
export async function left(service: BucketService, location: string): Promise<string[]> {
  const bucket = service.bucket(location);
  await bucket.ready();
  const found = await service.hidden?.(location) ?? [];
  for (let token: string | undefined;;) {
    const page = await bucket.list("", { token });
    found.unshift(...page.objects.map(({ key }) => key));
    if (!(token = page.next)) break;
  }
  bucket.close();
  // Claims are what pushes hold against garbage collection, for as long as it takes.
  return found.filter((key) => !key.startsWith("objects/claims/") && key !== "svc-store.json");
}

/** Opens stores on one location, and closes them all. */
export function opener(service: BucketService) {
  const location = service.location();
  const opened: ObjectStore[] = [];
  return {
    location,
    open: async () => {
      const store = await service.open(location);
      opened.push(store);
      return store;
    },
    close: async () => {
      for (const store of opened) await store[Symbol.asyncDispose]();
    },
  };
}

function overOneBucket(name: string, service: BucketService): void {
  const test = (title: string, fn: () => Promise<void>) => Deno.test(`${name}: ${title}`, fn);

  test("an upload of many parts changes hands again and again", async () => {
    const { location, open, close } = opener(service);
    const bytes = random(3 * PART + 12345);
    let at = 0;
    for (const end of [100, PART - 1, PART + 1, 2 * PART, 2 * PART + 7, bytes.length]) {
      const store = await open();
      const upload = at === 0
        ? await store.uploads.create("u-1")
        : (await store.uploads.open("u-1"))!;
      assert.equal(upload.offset, at);
      const held = await read({ stream: () => upload.read() });
      assert.equal(sha256(held), sha256(bytes.subarray(0, at)));
      for (; at < end; at = upload.offset) {
        await upload.write(bytes.subarray(at, Math.min(end, at + 1_000_000)));
      }
      await upload.flush();
      const [listed] = await Array.fromAsync(store.uploads.list());
      assert.deepEqual([listed.id, listed.size], ["u-1", end]);
      await upload.close();
    }
    const store = await open();
    await (await store.uploads.open("u-1"))!.commit("blobs/x");
    assert.equal(sha256(await read(await store.get("blobs/x"))), sha256(bytes));
    assert.deepEqual(await left(service, location), ["objects/blobs/x"]);
    await close();
  });

  test("a large put and an aborted upload leave nothing behind", async () => {
    const { location, open, close } = opener(service);
    const store = await open();
    const bytes = random(2 * PART + 1);
    assert.deepEqual(await store.put("k", streamOf(bytes), { size: bytes.length }), {
      created: true,
    });
    assert.equal(sha256(await read(await store.get("k"))), sha256(bytes));
    const range = await store.get("k", { range: { start: PART - 5, end: 2 * PART } });
    assert.deepEqual(await read(range), bytes.subarray(PART - 5, 2 * PART + 1));
    await assert.rejects(store.put("k", streamOf(bytes), { size: 7 }), { code: "size_invalid" });
    assert.deepEqual(
      await store.put("k", streamOf(new Uint8Array(PART + 1)), { ifAbsent: true }),
      { created: false },
    );
    const upload = await store.uploads.create("u");
    await upload.write(bytes);
    await upload.flush();
    await upload.abort();
    assert.deepEqual(await left(service, location), ["objects/k"]);
    assert.equal((await store.stat("k"))?.size, bytes.length);
    await close();
  });

  test("requests of one upload reach two servers in turn", async () => {
    const { location, open, close } = opener(service);
    const servers: ContentStore[] = [content(await open()), content(await open())];
    const bytes = random(2 * PART + 999);
    const { id } = await servers[0].startUpload("a/b");
    let at = 0;
    for (const [turn, end] of [1000, PART + 5, PART + 6, 2 * PART, bytes.length].entries()) {
      const upload = (await servers[(turn + 1) % 2].openUpload("a/b", id))!;
      assert.equal(upload.offset, at);
      at = await upload.append(streamOf(bytes.subarray(at, end)), { at });
      assert.equal(at, end);
    }
    const last = (await servers[0].openUpload("a/b", id))!;
    await last.commit(sha256(bytes));
    assert.equal(sha256(await read(await servers[1].get("a/b", sha256(bytes)))), sha256(bytes));
    assert.equal(await servers[1].openUpload("a/b", id), undefined);
    const hex = sha256(bytes).slice(7);
    assert.deepEqual(await left(service, location), [
      `objects/blobs/sha256/${hex.slice(0, 2)}/${hex}`,
    ]);
    await close();
  });

  test("a writer that was overtaken cannot harm the upload", async () => {
    const { location, open, close } = opener(service);
    const [first, second] = [await open(), await open()];
    const old = await first.uploads.create("u");
    const bytes = random(2 * PART + 50);
    await old.write(bytes.subarray(0, PART + 10));
    await old.flush();
    const now = (await second.uploads.open("u"))!;
    assert.equal(
      sha256(await read({ stream: () => now.read() })),
      sha256(bytes.subarray(0, PART + 10)),
    );
    await now.write(bytes.subarray(PART + 10));
    await now.flush();
    assert.equal(await old.current!(), false);
    await assert.rejects(async () => {
      await old.write(new Uint8Array(2 * PART));
      await old.flush();
    }, { code: "conflict" });
    await now.commit("k");
    assert.equal(sha256(await read(await second.get("k"))), sha256(bytes));
    assert.deepEqual(await service.hidden?.(location) ?? [], []);
    for (const { id } of await Array.fromAsync(second.uploads.list())) {
      assert.equal(await second.uploads.open(id), undefined);
    }
    assert.deepEqual(await left(service, location), ["objects/k"]);
    await close();
  });

  test("servers that publish the same bytes at the same moment all succeed", async () => {
    const { location, open, close } = opener(service);
    const bytes = random(PART + 777);
    const stores = [await open(), await open(), await open()];
    const uploads = await Promise.all(stores.map(async (store, index) => {
      const upload = await store.uploads.create(`u-${index}`);
      await upload.write(bytes);
      return upload;
    }));
    await Promise.all(uploads.map((upload) => upload.commit("blobs/same")));
    assert.equal(sha256(await read(await stores[0].get("blobs/same"))), sha256(bytes));
    assert.deepEqual(await left(service, location), ["objects/blobs/same"]);
    await close();
  });

  test("the doctor finds all it needs, and leaves nothing", async () => {
    const location = service.location();
    const lacking: string[] = [];
    for await (const { operation, ok, needed, detail } of probeBucket(service.bucket(location))) {
      assert.ok(ok || !needed, `${operation}: ${detail}`);
      if (!ok) lacking.push(operation);
    }
    assert.deepEqual(lacking, service.lacks ?? []);
    assert.deepEqual(await left(service, location), []);
  });

  test("any beginning of keys is listed; copies come right behind their first key", async () => {
    const { open, close } = opener(service);
    const store = await open();
    const names = ["v1", "v1%2", "v1%3", "v1-a", "v1.0", "v10"];
    for (const name of names.toReversed()) {
      await store.put(`tags/a/${name}`, new TextEncoder().encode(name));
    }
    const listed = async (prefix: string) =>
      (await Array.fromAsync(store.list(prefix))).map((entry) => "key" in entry ? entry.key : "");
    assert.deepEqual(await listed("tags/a/"), names.map((name) => `tags/a/${name}`));
    assert.deepEqual(await listed("tags/a/v1%"), ["tags/a/v1%2", "tags/a/v1%3"]);
    assert.deepEqual(await listed("tags/a/v2%"), []);
    await close();
  });

  test("a signed address gives the object, and ranges of it, to whoever has it", async () => {
    const { open, close } = opener(service);
    const store = await open();
    await store.put("blobs/sha256:+_%", new TextEncoder().encode("0123456789"));
    const url = await store.signedUrl!("blobs/sha256:+_%", { seconds: 60 });
    const whole = await fetch(url!);
    assert.deepEqual([whole.status, await whole.text()], [200, "0123456789"]);
    const part = await fetch(url!, { headers: { range: "bytes=3-5" } });
    assert.deepEqual([part.status, await part.text()], [206, "345"]);
    const forged = new URL(url!);
    forged.pathname = forged.pathname.replace("blobs", "other");
    const refused = await fetch(forged);
    await refused.body?.cancel();
    assert.equal(refused.status, 403);
    await close();
  });
}

/** Runs them all. `service` is asked when a test runs. */
export function bucketStoreTests(name: string, service: BucketService): void {
  objectStoreContract(name, async () => {
    const { open, close } = opener(service);
    return { store: await open(), reopen: open, cleanup: close };
  }, { durable: true });
  contentStoreContract(`content over ${name}`, async () => {
    const { open, close } = opener(service);
    const reopen = async () => content(await open());
    return { store: await reopen(), reopen, cleanup: close };
  }, { durable: true });
  overOneBucket(name, service);
}
