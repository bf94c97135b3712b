/** The store in a bucket of Google-style storage: a stand-in of its JSON API (test/peers/gcs.ts). */
import assert from "node:assert/strict";
import { gcsBucket } from "../../backends/store/gcs.ts";
import { openBucket } from "../../backends/store/shared/store.ts";
import { PART } from "../../backends/store/shared/upload_state.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { bucketStoreTests, random, read, sha256 } from "../contract/bucket_store.ts";
import { type GcsServer, startGcs } from "../peers/gcs.ts";

let peer: GcsServer | undefined;
Deno.test.beforeAll(async () => {
  peer = await startGcs();
  // The SDK looks there itself.
  Deno.env.set("GOOGLE_APPLICATION_CREDENTIALS", peer.credentials);
});
Deno.test.afterAll(async () => {
  Deno.env.delete("GOOGLE_APPLICATION_CREDENTIALS");
  await peer?.[Symbol.asyncDispose]();
});

bucketStoreTests("gcs", {
  location: () => peer!.location(),
  bucket: (location) => gcsBucket(location),
  open: (location) => openBucket(gcsBucket(location)),
});

const BYTES = random(2 * PART + 4321);

/** Goes on with "u" from wherever it is, to the end; `acknowledged` is told of every flush. */
async function push(store: ObjectStore, acknowledged: (offset: number) => void): Promise<void> {
  const upload = await store.uploads.open("u") ?? await store.uploads.create("u");
  try {
    acknowledged(upload.offset);
    const held = await read({ stream: () => upload.read() });
    assert.equal(sha256(held), sha256(BYTES.subarray(0, upload.offset)), "the bytes held");
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

Deno.test("gcs: a server that dies at a request loses nothing it acknowledged, and leaves nothing", async () => {
  const open = (location: string) => openBucket(gcsBucket(location, { attempts: 1 }));
  let steps = 0;
  peer!.fault = () => void steps++;
  {
    await using store = await open(peer!.location());
    await push(store, () => {});
  }
  assert.ok(steps > 20, `${steps} requests`);
  // Not every one, for the time it takes: SVC_TEST_STRIDE=1 is for changes of this code.
  const stride = Number(Deno.env.get("SVC_TEST_STRIDE") ?? 7);
  for (let step = 0; step <= steps; step += stride) {
    for (const moment of ["before", "after"] as const) {
      const at = `request ${step}, ${moment}`;
      const location = peer!.location();
      let [count, dead, acknowledged] = [0, false, 0];
      peer!.fault = () => {
        if (dead) return "before";
        if (count++ !== step) return undefined;
        dead = true;
        return moment;
      };
      try {
        await using store = await open(location);
        await push(store, (offset) => acknowledged = offset);
      } catch (error) {
        // What it was told by the request that failed.
        assert.ok(dead, `${at}: ${(error as Error).stack}`);
      }
      peer!.fault = undefined;
      await using store = await open(location);
      const published = await store.stat("blobs/x");
      const upload = await store.uploads.open("u");
      if (upload) assert.ok(upload.offset >= acknowledged, `${at}: ${upload.offset}`);
      else assert.ok(published || acknowledged === 0, `${at}: the upload is gone`);
      await upload?.close();
      if (!published || upload) await push(store, () => {});
      assert.equal(sha256(await read(await store.get("blobs/x"))), sha256(BYTES), at);
      // What nobody goes on with is found by the listing and expires.
      for (const { id } of await Array.fromAsync(store.uploads.list())) {
        await (await store.uploads.open(id))?.abort();
      }
      const prefix = new URL(location).pathname.slice(1);
      assert.deepEqual(
        peer!.keys(prefix).map((key) => key.slice(prefix.length + 1)),
        ["objects/blobs/x", "svc-store.json"],
        at,
      );
    }
  }
});
