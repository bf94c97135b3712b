/** Where records are, key by key: which copies are looked for, read, kept and removed. */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { copyKey, manifestKey, referrerKey, tagKey } from "../../lib/store/keys.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import type { ManifestRecord } from "../../lib/store/publication.ts";
import { RecordPlaces } from "../../lib/store/record_places.ts";
import { standing } from "../../lib/store/standing.ts";
import { wrapStore } from "../fixtures/wrapped_store.ts";

const KEY = "tags/app/v1";
const bytes = (text: string) => new TextEncoder().encode(text);
const text = (found: Uint8Array | undefined) => found && new TextDecoder().decode(found);

function shared() {
  const objects = wrapStore(openMemStore(), { exclusive: false });
  return { objects, places: new RecordPlaces(objects) };
}

Deno.test("copies: one process has none, several see the newest first", async () => {
  const { objects, places } = shared();
  const [one, two, three] = [1, 2, 3].map(() => copyKey(KEY));
  for (const key of [KEY, one]) await objects.put(key, bytes(key));
  assert.deepEqual(await places.keys(KEY), [one, KEY]);
  const alone = new RecordPlaces({ ...objects, exclusive: true });
  assert.deepEqual(await alone.keys(KEY), [KEY]);

  const listed = new RecordPlaces({
    exclusive: false,
    async *list() {
      for (const [key, at] of [[one, 1], [three, 3], [two, 2]] as const) {
        yield await Promise.resolve({ key, size: 1, modified: new Date(at) });
      }
    },
  } as unknown as ObjectStore);
  assert.deepEqual(await listed.keys(KEY), [three, two, one, KEY]);
});

Deno.test("a copy that goes while it is looked for gives way to the next", async () => {
  const { objects } = shared();
  const copies = [copyKey(KEY), copyKey(KEY)];
  for (const key of copies) await objects.put(key, bytes(key));
  const [newest, other] = await new RecordPlaces(objects).keys(KEY);
  const read = async (key: string) =>
    key === newest ? undefined : await new Response((await objects.get(key))?.stream()).bytes();
  const gone = {
    ...objects,
    read: async (key: string) => key === KEY ? undefined : await read(key),
  };
  assert.equal(text(await new RecordPlaces(gone).read(KEY)), other);
});

Deno.test("a write removes older copies only where it makes a new one", async () => {
  const { objects, places } = shared();
  await objects.put(copyKey(KEY), bytes("old"));
  await places.put(KEY, bytes("plain"), { copy: false });
  assert.equal((await places.keys(KEY)).length, 2);
  await places.put(KEY, bytes("copied"), { copy: true });
  const [copy, ...rest] = await places.keys(KEY);
  assert.deepEqual(rest, [KEY]);
  await objects.delete(KEY);
  assert.equal(text(await places.read(KEY)), "copied");
  assert.equal(await places.delete([copy, KEY]), true);
  assert.equal(await places.delete([copy, KEY]), false);
});

Deno.test("a rescue: nothing of nothing, one new copy, none where the claim was lost", async () => {
  const { objects, places } = shared();
  await places.rescue(KEY, () => assert.fail("there is nothing to confirm"));
  assert.equal(await places.has(KEY), false);

  const older = copyKey(KEY);
  for (const key of [KEY, older]) await objects.put(key, bytes("record"));
  const lost = new Error("lost");
  await assert.rejects(places.rescue(KEY, () => Promise.reject(lost)), lost);
  assert.deepEqual(await places.keys(KEY), [older, KEY]);

  await places.rescue(KEY, () => Promise.resolve());
  const [copy, ...rest] = await places.keys(KEY);
  assert.deepEqual(rest, [KEY]);
  assert.notEqual(copy, older);
});

Deno.test("what there is of a manifest: a referrer's entry only where it has a subject", async () => {
  const { places } = shared();
  const [digest, subject] = ["a", "b"].map((one) => `sha256:${one.repeat(64)}` as const);
  const look = (record: Partial<ManifestRecord>) =>
    standing({
      places,
      record: () => Promise.resolve(record as ManifestRecord),
      tags: () => assert.fail("the tags are given"),
      tagged: (_, tag) => Promise.resolve(tag === "v1" ? digest : subject),
    }, { repository: "app", digest, tags: ["v1", "v2"] });
  const record = manifestKey("app", digest);
  assert.deepEqual((await look({})).keys, [record]);
  const { keys, tags } = await look({ subject });
  assert.deepEqual(keys, [referrerKey("app", subject, digest), record]);
  assert.deepEqual([...tags], [["v1", [tagKey("app", "v1")]]]);
});
