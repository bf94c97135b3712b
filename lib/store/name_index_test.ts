import assert from "node:assert/strict";
import { listedNames, NameIndex, pageOfNames } from "./name_index.ts";

/** A store's names, whose listings stand still in the middle until they are let go. */
function slowStore(initial: string[]) {
  const names = new Set(initial);
  const gates: (() => void)[] = [];
  let listings = 0;
  const index = new NameIndex(async function* () {
    listings++;
    const seen = [...names].sort();
    if (slow) await new Promise<void>((resolve) => gates.push(resolve));
    yield* seen;
  });
  let slow = false;
  return {
    index,
    names,
    listings: () => listings,
    stall: () => slow = true,
    release: () => {
      slow = false;
      for (const go of gates.splice(0)) go();
    },
    add: (name: string) => index.write("p/", name, true, async () => void names.add(name)),
    remove: (name: string) => index.write("p/", name, false, async () => void names.delete(name)),
  };
}

const all = (index: NameIndex, after?: string) => Array.fromAsync(index.list("p/", after));

Deno.test("names are listed once, and kept right by writes", async () => {
  const store = slowStore(["b", "d"]);
  assert.deepEqual(await all(store.index), ["b", "d"]);
  await store.add("c");
  await store.add("c");
  await store.add("a");
  await store.add("e");
  await store.remove("b");
  await store.remove("none");
  assert.deepEqual(await all(store.index), ["a", "c", "d", "e"]);
  assert.deepEqual(await all(store.index, "c"), ["d", "e"]);
  assert.deepEqual(await all(store.index, "ca"), ["d", "e"]);
  assert.deepEqual(await all(store.index, "e"), []);
  assert.equal(store.listings(), 1);
  const page = (limit: number, after?: string) => store.index.list("p/", after).page(limit);
  assert.deepEqual(await page(2), { names: ["a", "c"], more: true });
  assert.deepEqual(await page(2, "c"), { names: ["d", "e"], more: false });
  assert.deepEqual(await page(0), { names: [], more: false });
  const whole = await page(4);
  assert.deepEqual(whole, { names: ["a", "c", "d", "e"], more: false });
  // As it stands, so that what was made of it can be found again; and another after a write.
  assert.equal((await page(10)).names, whole.names);
  await store.add("f");
  assert.equal(whole.names.length, 4);
  assert.equal((await page(10)).names.length, 5);
});

Deno.test("what is written while the names are read is there afterwards", async () => {
  const store = slowStore(["a", "b"]);
  store.stall();
  const first = all(store.index);
  await store.add("c");
  await store.remove("a");
  await store.add("d");
  await store.remove("d");
  const second = all(store.index);
  store.release();
  assert.deepEqual([await first, await second], [["b", "c"], ["b", "c"]]);
  assert.deepEqual(await all(store.index), ["b", "c"]);
  assert.equal(store.listings(), 1);
});

Deno.test("after a write that failed, and may have been done, the names are read again", async () => {
  const store = slowStore(["a"]);
  await all(store.index);
  const failing = () =>
    store.index.write("p/", "b", true, () => {
      store.names.add("b");
      return Promise.reject(new Error("not synced"));
    });
  await assert.rejects(failing, /not synced/);
  assert.deepEqual(await all(store.index), ["a", "b"]);
  assert.equal(store.listings(), 2);
  // Also where the failure came while they were being read.
  store.names.delete("b");
  await assert.rejects(failing);
  store.stall();
  const reading = all(store.index);
  await assert.rejects(failing);
  store.release();
  await reading;
  assert.deepEqual(await all(store.index), ["a", "b"]);
});

Deno.test("a reading that fails is not remembered", async () => {
  let broken = true;
  const index = new NameIndex(async function* () {
    if (broken) throw new Error("unreadable");
    yield "a";
  });
  await assert.rejects(all(index), /unreadable/);
  broken = false;
  assert.deepEqual(await all(index), ["a"]);
});

Deno.test("memory for names is bounded: those that were asked for last stay", async () => {
  const listed: string[] = [];
  const index = new NameIndex(async function* (prefix) {
    listed.push(prefix);
    for (let n = 0; n < 10; n++) yield `${n}`;
  }, 1000);
  for (const prefix of ["a/", "b/", "a/", "c/", "a/", "b/"]) await index.list(prefix).page(1);
  assert.deepEqual(listed, ["a/", "b/", "c/", "b/"]);
});

Deno.test("pages of a listing ask for no more than they need", async () => {
  const limits: (number | undefined)[] = [];
  const list = listedNames((limit) => {
    limits.push(limit);
    return ReadableStream.from(["a", "b", "c"].slice(0, limit));
  });
  assert.deepEqual(await list.page(2), { names: ["a", "b"], more: true });
  assert.deepEqual(await list.page(3), { names: ["a", "b", "c"], more: false });
  assert.deepEqual(await Array.fromAsync(list), ["a", "b", "c"]);
  assert.deepEqual(limits, [3, 4, undefined]);
  assert.deepEqual(await pageOfNames(ReadableStream.from(["a"]), 0), { names: [], more: false });
});
