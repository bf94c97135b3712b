import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { digestOf } from "../oci/digest.ts";
import { Uploads } from "./uploads.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

/** Gives one chunk and then neither more nor an end, as a connection does that died unnoticed. */
function stuck(text: string): ReadableStream<Uint8Array> {
  return new ReadableStream({ start: (controller) => controller.enqueue(bytes(text)) });
}

Deno.test("an append that stands still gives way to a newer one, and keeps what it had", async () => {
  const uploads = new Uploads(openMemStore(), 30);
  const upload = await uploads.start("a");
  const dead = assert.rejects(upload.append(stuck("hello ")), { code: "conflict" });
  const again = await uploads.open("a", upload.id);
  const body = ReadableStream.from([bytes("world")]);
  assert.equal(await again!.append(body), 11);
  await dead;
  await again!.commit(digestOf(bytes("hello world")));
});

Deno.test("a cancelled upload ends its running append", async () => {
  const uploads = new Uploads(openMemStore());
  const upload = await uploads.start("a");
  const running = assert.rejects(upload.append(stuck("x")), { code: "blob_upload_unknown" });
  await new Promise((resolve) => setTimeout(resolve, 5));
  await upload.abort();
  await running;
  assert.equal(await uploads.open("a", upload.id), undefined);
});

Deno.test("closing ends running appends and keeps the uploads", async () => {
  const uploads = new Uploads(openMemStore());
  const upload = await uploads.start("a");
  const running = assert.rejects(upload.append(stuck("abc")), { code: "unavailable" });
  await new Promise((resolve) => setTimeout(resolve, 5));
  await uploads.close();
  await running;
  assert.equal((await uploads.open("a", upload.id))?.offset, 3);
});
