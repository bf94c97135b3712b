import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { digestOf } from "../oci/digest.ts";
import { silent } from "../base/log.ts";
import { holdTimers } from "../../test/fixtures/held_timers.ts";
import { Damage } from "./damage.ts";
import type { ObjectStore } from "./object_store.ts";
import { Uploads } from "./uploads.ts";

const uploadsOver = (objects: ObjectStore, stalledMs?: number) =>
  new Uploads(objects, new Damage(objects, silent), stalledMs);

const bytes = (text: string) => new TextEncoder().encode(text);

/**
 * Gives one chunk and then neither more nor an end, as a connection does that died unnoticed; `taken` when
 * the chunk was dealt with.
 */
function stuck(text: string): { stream: ReadableStream<Uint8Array>; taken: Promise<void> } {
  const { promise: taken, resolve } = Promise.withResolvers<void>();
  let given = false;
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (!given) {
        given = true;
        return controller.enqueue(bytes(text));
      }
      resolve();
      return new Promise(() => {});
    },
  }, { highWaterMark: 0 });
  return { stream, taken };
}

Deno.test("an append that stands still gives way to a newer one, and keeps what it had", async () => {
  const uploads = uploadsOver(openMemStore(), 30);
  const upload = await uploads.start("a");
  const hello = stuck("hello ");
  const dead = assert.rejects(upload.append(hello.stream), { code: "conflict" });
  await hello.taken;
  const again = await uploads.open("a", upload.id);
  const body = ReadableStream.from([bytes("world")]);
  assert.equal(await again!.append(body), 11);
  await dead;
  await again!.commit(digestOf(bytes("hello world")));
});

Deno.test("a cancelled upload ends its running append", async () => {
  const uploads = uploadsOver(openMemStore());
  const upload = await uploads.start("a");
  const body = stuck("x");
  const running = assert.rejects(upload.append(body.stream), { code: "blob_upload_unknown" });
  await body.taken;
  await upload.abort();
  await running;
  assert.equal(await uploads.open("a", upload.id), undefined);
});

Deno.test("closing ends running appends and keeps the uploads", async () => {
  const uploads = uploadsOver(openMemStore());
  const upload = await uploads.start("a");
  const body = stuck("abc");
  const running = assert.rejects(upload.append(body.stream), { code: "unavailable" });
  await body.taken;
  await uploads.close();
  await running;
  assert.equal((await uploads.open("a", upload.id))?.offset, 3);
});

Deno.test("who waits for an upload that another holds may leave at once", async () => {
  const hour = 3_600_000;
  using looks = holdTimers(hour / 10);
  const uploads = uploadsOver(openMemStore(), hour);
  const upload = await uploads.start("a");
  const hello = stuck("hello ");
  const holding = assert.rejects(upload.append(hello.stream), { code: "blob_upload_unknown" });
  await hello.taken;
  const leaving = new AbortController();
  const again = await uploads.open("a", upload.id);
  const body = ReadableStream.from([bytes("world")]);
  const waiting = assert.rejects(again!.append(body, { signal: leaving.signal }), {
    name: "AbortError",
  });
  // The look at the one that holds it is set once the other waits.
  for (let looked = 0; looked === 0;) {
    looked = looks.fire();
    await new Promise((resolve) => setTimeout(resolve));
  }
  leaving.abort();
  await waiting;
  await upload.abort();
  await holding;
});
