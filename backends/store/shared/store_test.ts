/** The store over a bucket in memory; test/e2e has real services. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { objectStoreContract } from "../../../test/contract/object_store.ts";
import { type Fault, MemoryBucket, MemoryService } from "../../../test/fixtures/memory_bucket.ts";
import type { ObjectStore, UploadFile } from "../../../lib/store/object_store.ts";
import { openBucket } from "./store.ts";
import { PART } from "./upload_state.ts";

const open = (service: MemoryService, fault?: Fault): Promise<ObjectStore> =>
  openBucket(new MemoryBucket(service, fault));

for (const conditions of [true, false]) {
  const name = conditions ? "bucket in memory" : "s3 in memory, without conditions";
  objectStoreContract(name, async () => {
    const service = new MemoryService();
    const store = await openBucket(
      new MemoryBucket(service, undefined, conditions),
      { conditional: conditions },
    );
    return {
      store,
      reopen: () => open(service),
      debris: () => Promise.resolve(service.uploads.size),
      cleanup: async () => await store[Symbol.asyncDispose](),
    };
  }, { durable: true });
}

const BYTES = new Uint8Array(2 * PART + 4321);
for (let at = 0; at < BYTES.length; at += 65536) {
  crypto.getRandomValues(BYTES.subarray(at, at + 65536));
}
const same = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b) === 0;

async function content(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(stream as BodyInit).arrayBuffer());
}

/** Goes on with "u" from wherever it is, to the end; `acknowledged` is told of every flush. */
async function push(store: ObjectStore, acknowledged: (offset: number) => void): Promise<void> {
  const upload = await store.uploads.open("u") ?? await store.uploads.create("u");
  try {
    acknowledged(upload.offset);
    const held = await content(upload.read());
    assert.ok(same(held, BYTES.subarray(0, upload.offset)), "the bytes held");
    for (const end of [1000, PART + 500, BYTES.length]) {
      if (end <= upload.offset) continue;
      await upload.write(BYTES.subarray(upload.offset, end));
      await upload.flush();
      acknowledged(end);
    }
    await upload.commit("blobs/x");
  } finally {
    await upload.close();
  }
}

Deno.test("bucket: a server that dies at any request loses nothing it acknowledged, and leaves nothing", async () => {
  let steps = 0;
  await push(await open(new MemoryService(), () => void steps++), () => {});
  assert.ok(steps > 20, `${steps} requests`);
  for (let step = 0; step <= steps; step++) {
    for (const moment of ["before", "after"] as const) {
      const at = `request ${step}, ${moment}`;
      const service = new MemoryService();
      let [count, dead] = [0, false];
      let acknowledged = 0;
      // From its death on nothing that the server does reaches the bucket.
      const fault: Fault = () => {
        if (dead) return "before";
        if (count++ !== step) return undefined;
        dead = true;
        return moment;
      };
      try {
        await push(await open(service, fault), (offset) => acknowledged = offset);
      } catch (error) {
        assert.equal((error as Error).name, "Fallen", `${at}: ${(error as Error).stack}`);
      }
      const store = await open(service);
      const published = await store.stat("blobs/x");
      const upload = await store.uploads.open("u");
      if (upload) {
        assert.ok(upload.offset >= acknowledged, `${at}: ${upload.offset} of ${acknowledged}`);
      } else assert.ok(published || acknowledged === 0, `${at}: the upload is gone`);
      await upload?.close();
      if (!published || upload) await push(store, () => {});
      assert.ok(same(await content((await store.get("blobs/x"))!.stream()), BYTES), at);
      // What nobody goes on with is found by the listing and expires.
      for (const { id } of await Array.fromAsync(store.uploads.list())) {
        await (await store.uploads.open(id))?.abort();
      }
      assert.deepEqual(
        [...service.objects.keys()].sort(),
        ["objects/blobs/x", "svc-store.json"],
        at,
      );
      const withParts = [...service.uploads.values()].filter(({ parts }) => parts.size > 0);
      assert.deepEqual(withParts.map(({ key }) => key), [], `${at}: parts nobody can find`);
    }
  }
});

Deno.test("bucket: idle uploads give their memory back and read it again", async () => {
  const service = new MemoryService();
  const reads: string[] = [];
  const store = await open(service, (operation, key) => {
    if (operation === "get" && key.includes("/tail-")) reads.push(key);
    return undefined;
  });
  const size = PART - 1;
  const count = 12; // more than 64 MiB together
  const kept: UploadFile[] = [];
  for (let n = 0; n < count; n++) {
    const upload = await store.uploads.create(`u${n}`);
    await upload.write(BYTES.subarray(n, n + size));
    await upload.flush();
    kept.push(upload);
  }
  assert.deepEqual(reads, []);
  for (const [n, upload] of kept.entries()) {
    await upload.write(BYTES.subarray(n + size, n + size + 2));
    await upload.commit(`k${n}`);
    const stored = await content((await store.get(`k${n}`))!.stream());
    assert.ok(same(stored, BYTES.subarray(n, n + size + 2)), `upload ${n}`);
  }
  assert.ok(reads.length >= 4 && reads.length < count, `${reads.length} were read again`);
  await store[Symbol.asyncDispose]();
});
