/**
 * A process that stands still at each write of a removal in turn, and goes on when others have pushed again what it
 * was removing: a store that several processes share refuses no push for it, and loses none.
 */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../../lib/base/log.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import { pageOfNames } from "../../lib/store/name_index.ts";
import { manifestKey } from "../../lib/store/keys.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { MEDIA } from "../../lib/oci/types.ts";
import {
  assertImage,
  assertSound,
  pushImage,
  type SmallImage,
  smallImage,
} from "../fixtures/small_images.ts";
import { wrapStore } from "../fixtures/wrapped_store.ts";

const base = smallImage("base", ["layer"]);
const other = smallImage("other", ["layer"]);
const signature = smallImage("signature", ["signed"], {
  subject: { mediaType: MEDIA.manifest, digest: base.digest, size: base.bytes.length },
});
const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

const indexOf = ({ digest, bytes }: SmallImage) =>
  encode({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: [{ mediaType: MEDIA.manifest, digest, size: bytes.length }],
  });

const keysOf = async (objects: ObjectStore, prefix: string) =>
  (await Array.fromAsync(objects.list(prefix))).map((entry) => "key" in entry ? entry.key : "");

/** Stands still before its n-th write, once it was told to count. */
function slowStore(objects: ObjectStore) {
  let left = Infinity;
  const reached = Promise.withResolvers<"stands">();
  const go = Promise.withResolvers<void>();
  const wrapped = wrapStore(objects, {
    exclusive: false,
    before: async ({ writes }) => {
      if (!writes || --left !== 0) return;
      reached.resolve("stands");
      await go.promise;
    },
  });
  return {
    store: createContentStore(wrapped, { log: silent, patienceMs: 5 }),
    countFrom: (n: number) => void (left = n),
    reached: reached.promise,
    go: () => go.resolve(),
  };
}

async function pushAgain(store: ContentStore): Promise<void> {
  await pushImage(store, "app", base, ["base"]);
  await pushImage(store, "app", signature, ["v1", "v1.0"]);
  await store.publish("app", MEDIA.index, indexOf(signature), { tags: ["multi"] });
}

async function assertThere(store: ContentStore): Promise<void> {
  await assertImage(store, "app", signature, "v1");
  await assertImage(store, "app", signature, "v1.0");
  assert.ok(await store.resolve("app", "multi"));
  const referrers = await Array.fromAsync(store.referrers("app", base.digest));
  assert.deepEqual(referrers.map(({ digest }) => digest), [signature.digest]);
  const tags = ["base", "multi", "v1", "v1.0"];
  assert.deepEqual(await Array.fromAsync(store.tags("app")), tags);
  // A client that asks for one at a time gets each once, and to the end.
  let after: string | undefined;
  for (const tag of tags) {
    const page = await pageOfNames(store.tags("app", { after }), 1);
    assert.deepEqual(page.names, [after = tag]);
  }
  assert.deepEqual((await pageOfNames(store.tags("app", { after }), 1)).names, []);
  await assertSound(store);
  const { manifests, tags: counted } = await store.upkeep.usage();
  assert.deepEqual([manifests, counted], [3, 4]);
}

/** False where the removal has fewer writes. */
async function removeUntil(
  n: number,
  remove: (store: ContentStore) => Promise<unknown>,
): Promise<boolean> {
  const objects = openMemStore();
  const open = () =>
    createContentStore(wrapStore(objects, { exclusive: false }), { log: silent, patienceMs: 5 });
  const store = open();
  await pushImage(store, "app", base, ["base"]);
  await pushImage(store, "app", signature, ["v1"]);
  const slow = slowStore(objects);
  slow.countFrom(n);
  const removing = remove(slow.store);
  if (await Promise.race([slow.reached, removing]) !== "stands") return false;
  const said = (await keysOf(objects, "condemned/")).length > 0;
  await pushAgain(store);
  if (said) await assertThere(store);
  slow.go();
  await removing;
  // Who began before it said so may come after the push.
  if (!said) await pushAgain(store);
  await assertThere(store);
  await open().upkeep.collect({ untagged: "drop", idleMs: 0 });
  await assertThere(open());

  await store.deleteManifest("app", "multi");
  await pushImage(store, "app", other, ["v1"]);
  await assertImage(open(), "app", other, "v1");
  await store.deleteManifest("app", signature.digest);
  assert.deepEqual(await Array.fromAsync(store.tags("app")), ["base", "v1"]);
  assert.deepEqual(await Array.fromAsync(store.referrers("app", base.digest)), []);
  assert.equal(await store.resolve("app", signature.digest), undefined);
  for (const tag of ["v1", "base"]) assert.equal(await store.deleteManifest("app", tag), true);
  await store.upkeep.collect({ untagged: "drop", idleMs: 0 });
  await store[Symbol.asyncDispose]();
  for (const prefix of ["tags/", "referrers/", "manifests/", "blobs/"]) {
    assert.deepEqual(await keysOf(objects, prefix), [], `left after a stop at write ${n}`);
  }
  return true;
}

Deno.test("a client's delete of a manifest that stands still, at each of its writes", async () => {
  let writes = 0;
  while (
    await removeUntil(writes + 1, (store) => store.deleteManifest("app", signature.digest))
  ) writes++;
  assert.ok(writes > 4, `${writes} writes`);
});

Deno.test("a collection of untagged manifests that stands still, at each of its writes", async () => {
  let writes = 0;
  const remove = async (store: ContentStore) => {
    for (const tag of ["v1", "base"]) await store.deleteManifest("app", tag);
    await store.upkeep.collect({ untagged: "drop", idleMs: 0 }).catch(
      () => {/* it came too late */},
    );
  };
  while (await removeUntil(writes + 1, remove)) writes++;
  assert.ok(writes > 5, `${writes} writes`);
});

/** A store where a dead remover has condemned one key; `givesUp`: somebody gives up the claims of whoever made a copy. */
function condemned(key: string) {
  const objects = openMemStore();
  const state = { givesUp: false };
  const store = createContentStore(
    wrapStore(objects, {
      exclusive: false,
      after: async ({ name, key: written }) => {
        if (name !== "put" || !written.startsWith(`${key}%`) || !state.givesUp) return;
        for await (const entry of objects.list("claims/")) {
          if ("key" in entry) await objects.delete(entry.key);
        }
      },
    }),
    { log: silent, patienceMs: 20 },
  );
  return {
    ...{ objects, store, state },
    condemn: () => objects.put("condemned/of-the-dead", encode({ keys: [key] })),
    copies: async () => {
      const folder = key.slice(0, key.lastIndexOf("/") + 1);
      const found = await Array.fromAsync(objects.list(folder, { after: key }));
      return found.filter((entry) => "key" in entry && entry.key.startsWith(key)).length;
    },
  };
}

Deno.test("a manifest that a dead remover condemned is copied for an index, under its claim", async () => {
  const image = smallImage("x", ["layer"]);
  const key = manifestKey("app", image.digest);
  const { objects, store, state, condemn, copies } = condemned(key);
  await pushImage(store, "app", image, []);
  await condemn();
  const push = () => store.publish("app", MEDIA.index, indexOf(image), { tags: ["multi"] });
  state.givesUp = true;
  await assert.rejects(push(), { code: "unavailable" });
  assert.equal(await copies(), 0);
  state.givesUp = false;
  await push();
  assert.equal(await copies(), 1);
  await objects.delete(key);
  await assertImage(store, "app", image);
  await assertSound(store);
});

Deno.test("a tag that a dead remover condemned is moved, and removed", async () => {
  const key = "tags/app/v1";
  const { objects, store, condemn, copies } = condemned(key);
  const [one, two, three] = ["1", "2", "3"].map((name) => smallImage(name, ["layer"]));
  await pushImage(store, "app", one, ["v1"]);
  await condemn();
  for (const image of [two, three]) {
    await pushImage(store, "app", image, ["v1"]);
    assert.equal(await copies(), 1);
  }
  await objects.delete(key);
  await assertImage(store, "app", three, "v1");
  assert.equal(await store.deleteManifest("app", "v1"), true);
  assert.equal(await store.resolve("app", "v1"), undefined);
  assert.equal(await copies(), 0);
  assert.equal(await store.deleteManifest("app", "v1"), false);
});

Deno.test("a tag that a manifest got while its delete began is condemned too: a push that moves it keeps it", async () => {
  const objects = openMemStore();
  const store = createContentStore(wrapStore(objects, { exclusive: false }), {
    log: silent,
    patienceMs: 5,
  });
  const done = { tagged: false, moved: false };
  const remover = createContentStore(
    wrapStore(objects, {
      exclusive: false,
      before: async ({ name, key }) => {
        if (name === "put" && key.startsWith("condemned/") && !done.tagged) {
          done.tagged = true;
          await pushImage(store, "app", base, ["late"]);
        }
        if (name === "delete" && key === "tags/app/late" && !done.moved) {
          done.moved = true;
          await pushImage(store, "app", other, ["late"]);
        }
      },
    }),
    { log: silent, patienceMs: 5 },
  );
  await pushImage(store, "app", base, ["v1"]);
  assert.equal(await remover.deleteManifest("app", base.digest), true);
  assert.deepEqual(done, { tagged: true, moved: true });
  await assertImage(store, "app", other, "late");
  assert.deepEqual(await Array.fromAsync(store.tags("app")), ["late"]);
});
