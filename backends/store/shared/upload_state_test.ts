/** What a server makes of the objects that other servers have left of an upload. */
import assert from "node:assert/strict";
import { type Fault, MemoryBucket, MemoryService } from "../../../test/fixtures/memory_bucket.ts";
import {
  fingerprint,
  folderOf,
  loadState,
  PART,
  position,
  putRecord,
  readRecord,
  removeUpload,
  type UploadState,
} from "./upload_state.ts";

const FOLDER = folderOf("u");
/** One buffer for all whole parts: what is in them does not matter here. */
const WHOLE = new Uint8Array(PART);

/** An upload that has begun; each object and part is one second younger than the one before. */
function world(fault?: Fault) {
  const service = new MemoryService();
  const bucket = new MemoryBucket(service, fault);
  let time = 0;
  const hold = (bytes: Uint8Array) => {
    time += 1000;
    return { bytes, etag: `"${time}"`, modified: new Date(time) };
  };
  const put = (name: string, bytes: number | string = "") => {
    const content = typeof bytes === "number"
      ? new Uint8Array(bytes)
      : new TextEncoder().encode(bytes);
    service.objects.set(FOLDER + name, hold(content));
  };
  /** A multipart upload and its record, with a part of each of the sizes. */
  const multipart = (name: string, ...sizes: number[]) => {
    const uploadId = `id-${name}`;
    put(name, JSON.stringify({ key: `target-${name}`, uploadId }));
    const parts = sizes.map((size, n) => [n + 1, hold(WHOLE.subarray(0, size))] as const);
    service.uploads.set(uploadId, { key: `target-${name}`, parts: new Map(parts) });
    return uploadId;
  };
  put("created");
  return {
    service,
    bucket,
    put,
    multipart,
    load: () => loadState(bucket, "u", {}),
    names: () => [...service.objects.keys()].map((key) => key.slice(FOLDER.length)),
  };
}

const at = (kind: string, start: number, writer: string) => `${kind}-${position(start)}-${writer}`;
const keysOf = (state: UploadState | undefined) =>
  state?.segments.map(({ key }) => key.slice(FOLDER.length));

Deno.test("upload state: an upload that has just begun is empty, and over without its first object", async () => {
  const { service, load, put } = world();
  assert.deepEqual(await load(), { segments: [], offset: 0, modified: new Date(1000) });
  put(at("tail", 0, "a"), 5);
  service.objects.delete(`${FOLDER}created`);
  assert.equal(await load(), undefined);
});

Deno.test("upload state: of several stretches at one place the largest counts, whoever wrote first", async () => {
  for (const sizes of [[10, 20], [20, 10]]) {
    const { load, put } = world();
    put(at("segment", 0, "a"), sizes[0]);
    put(at("segment", 0, "b"), sizes[1]);
    put(at("segment", 20, "a"), 7);
    put(at("segment", 99, "a"), 1000);
    put(at("tail", 27, "a"), sizes[0]);
    put(at("tail", 27, "b"), sizes[1]);
    put(at("tail", 20, "c"), 1000);
    const state = await load();
    const largest = sizes[0] === 20 ? "a" : "b";
    assert.deepEqual(keysOf(state), [at("segment", 0, largest), at("segment", 20, "a")]);
    assert.deepEqual(state!.segments.map(({ size }) => size), [20, 7]);
    assert.deepEqual(state!.tail, { key: FOLDER + at("tail", 27, largest), size: 20 });
    assert.equal(state!.offset, 47);
    assert.equal(state!.multipart, undefined);
    assert.equal(state!.modified.getTime(), 8000);
  }
});

Deno.test("upload state: of several multipart uploads the one with most whole parts goes on", async () => {
  for (const [first, second] of [[[PART], [PART, PART]], [[PART, PART], [PART]]]) {
    const { load, multipart, put } = world();
    multipart(at("multipart", 0, "a"), ...first);
    multipart(at("multipart", 0, "b"), ...second);
    put(at("tail", 2 * PART, "x"), 3);
    put(at("tail", PART, "x"), 9);
    const state = (await load())!;
    const best = at("multipart", 0, first.length === 2 ? "a" : "b");
    assert.equal(state.multipart!.uploadId, `id-${best}`);
    assert.equal(state.multipart!.key, `target-${best}`);
    assert.equal(state.multipart!.start, 0);
    assert.deepEqual(state.multipart!.parts.map(({ number }) => number), [1, 2]);
    assert.equal(state.offset, 2 * PART + 3);
  }
});

Deno.test("upload state: of equals the first name counts, so that all servers see the same", async () => {
  const { load, multipart, put } = world();
  put(at("segment", 0, "b"), 10);
  put(at("segment", 0, "a"), 10);
  multipart(at("multipart", 10, "b"), PART);
  multipart(at("multipart", 10, "a"), PART);
  const state = (await load())!;
  assert.deepEqual(keysOf(state), [at("segment", 0, "a")]);
  assert.equal(state.multipart!.uploadId, `id-${at("multipart", 10, "a")}`);
});

Deno.test("upload state: parts count as far as they are whole and without a gap", async () => {
  const short = world();
  short.multipart(at("multipart", 0, "a"), PART, 100, PART);
  const state = (await short.load())!;
  assert.equal(state.offset, PART);
  // The object, its record and the one part that counts; not the two behind it.
  assert.equal(state.modified.getTime(), 3000);

  const gap = world();
  const id = gap.multipart(at("multipart", 0, "a"), PART, PART, PART);
  gap.service.uploads.get(id)!.parts.delete(2);
  assert.equal((await gap.load())!.offset, PART);

  const none = world();
  none.multipart(at("multipart", 0, "a"));
  const empty = (await none.load())!;
  assert.deepEqual([empty.offset, empty.multipart!.parts], [0, []]);
  assert.equal(empty.modified.getTime(), 2000);

  // Parts need not arrive in their order.
  const late = world();
  const parts =
    late.service.uploads.get(late.multipart(at("multipart", 0, "a"), PART, PART))!.parts;
  parts.get(1)!.modified = new Date(9000);
  assert.equal((await late.load())!.modified.getTime(), 9000);

  // A record that is younger than its parts, and an object that is younger than both.
  const old = world();
  const young = old.multipart(at("multipart", 0, "a"), PART);
  old.service.uploads.get(young)!.parts.get(1)!.modified = new Date(1);
  assert.equal((await old.load())!.modified.getTime(), 2000);
  old.put(at("tail", PART, "a"), 1);
  assert.equal((await old.load())!.modified.getTime(), 4000);
});

Deno.test("upload state: a completed stretch counts unless an open one at its place has more", async () => {
  const same = world();
  same.put(at("segment", 0, "a"), PART);
  same.multipart(at("multipart", 0, "b"), PART);
  const completed = (await same.load())!;
  assert.deepEqual(keysOf(completed), [at("segment", 0, "a")]);
  assert.equal(completed.multipart, undefined);
  assert.equal(completed.offset, PART);

  const longer = world();
  longer.put(at("segment", 0, "a"), PART);
  longer.multipart(at("multipart", 0, "b"), PART, PART);
  const open = (await longer.load())!;
  assert.deepEqual([keysOf(open), open.offset], [[], 2 * PART]);

  // The record of a stretch that was completed is left until the upload ends: its multipart upload is gone.
  const own = world();
  own.multipart(at("multipart", 0, "a"), PART);
  own.service.uploads.clear();
  own.put(at("segment", 0, "a"), PART);
  assert.equal((await own.load())!.offset, PART);
});

Deno.test("upload state: what another server completes meanwhile is seen at the second look", async () => {
  const name = at("multipart", 0, "a");
  let looks = 0;
  const { load, multipart, put, service } = world((operation) => {
    if (operation === "list") looks++;
    if (operation !== "listParts" || service.uploads.size === 0) return undefined;
    service.uploads.clear();
    put(at("segment", 0, "a"), PART);
  });
  multipart(name, PART);
  assert.equal((await load())!.offset, PART);
  assert.equal(looks, 2);
});

Deno.test("upload state: an upload whose parts are lost is over, after a second look", async () => {
  let looks = 0;
  const { load, multipart, service, put } = world((operation) =>
    void (operation === "list" && looks++)
  );
  multipart(at("multipart", 0, "a"), PART);
  put(at("tail", 0, "a"), 5);
  service.uploads.clear();
  assert.equal(await load(), undefined);
  assert.equal(looks, 2);
});

Deno.test("upload state: fingerprints tell states apart by all that another server may have changed", () => {
  const segments = [{ key: "s", size: 10 }];
  const multipart = { key: "t", uploadId: "m", start: 10, parts: [{ number: 1, etag: "e" }] };
  const tail = { key: "tail", size: 1 };
  const states = [
    { segments, offset: 10 },
    { segments, offset: 11 },
    { segments: [{ key: "other", size: 10 }], offset: 10 },
    { segments: [...segments, ...segments], offset: 10 },
    { segments, tail, offset: 10 },
    { segments, tail: { key: "tail", size: 2 }, offset: 10 },
    { segments, multipart, offset: 10 },
    { segments, multipart: { ...multipart, uploadId: "n" }, offset: 10 },
    { segments, multipart: { ...multipart, parts: [] }, offset: 10 },
    { segments, multipart: { ...multipart, uploadId: "" }, offset: 10 },
  ];
  assert.equal(new Set(states.map(fingerprint)).size, states.length);
  // A tail may be written again by the same server under another name.
  const again = { segments, tail: { key: "again", size: 1 }, offset: 10 };
  assert.equal(fingerprint(again), fingerprint(states[4]));
});

Deno.test("upload state: records are read as they were put, and only what they need is put", async () => {
  const { bucket, service } = world();
  const record = { key: "blobs/x", uploadId: "m", start: 5, parts: [] };
  await putRecord(bucket, "r", record);
  assert.deepEqual(await readRecord(bucket, "r", {}), { key: "blobs/x", uploadId: "m" });
  assert.equal(await readRecord(bucket, "none", {}), undefined);
  assert.equal(service.objects.get("r")!.bytes.length, '{"key":"blobs/x","uploadId":"m"}'.length);
  assert.equal(position(12), "0000000000000012");
});

Deno.test("upload state: an upload is removed with its open multipart uploads, its first object first", async () => {
  const removed: string[] = [];
  const { bucket, multipart, names, put, service } = world((operation, key) => {
    if (operation === "delete") removed.push(key.slice(FOLDER.length));
    return undefined;
  });
  multipart(at("multipart", 0, "a"), PART);
  multipart("commit-a");
  put(at("segment", 0, "b"), 10);
  put(at("tail", 10, "b"), 10);
  service.objects.set("uploads/u2/created", service.objects.get(`${FOLDER}created`)!);
  // A record whose name only looks like one of those.
  const kept = multipart("tail-multipart-x");
  await removeUpload(bucket, "u");
  assert.equal(removed[0], "created");
  assert.deepEqual([...service.objects.keys()], ["uploads/u2/created"]);
  assert.deepEqual([...service.uploads.keys()], [kept]);
  // Again, as after a crash.
  await removeUpload(bucket, "u");
  assert.deepEqual(names().length, 1);
});

Deno.test("upload state: with its names known, an upload is removed without a search", async () => {
  const asked: string[] = [];
  const { bucket, multipart, put, service } = world((operation) => {
    asked.push(operation);
    return undefined;
  });
  const id = multipart(at("multipart", 0, "a"), PART);
  put(at("tail", 0, "a"), 10);
  const known = [at("multipart", 0, "a"), at("tail", 0, "a")].map((name) => FOLDER + name);
  await removeUpload(bucket, "u", { known });
  assert.deepEqual(new Set(asked), new Set(["delete"]));
  assert.equal(service.objects.size, 0);
  assert.ok(service.uploads.has(id));
});
