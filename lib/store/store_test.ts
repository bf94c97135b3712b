import assert from "node:assert/strict";
import { escapeName, unescapeName } from "./keys.ts";
import { Lru, ReadCache } from "./lru.ts";
import { Gate } from "./gate.ts";

// The suites that need a store stand in test/contract: lib never imports backends.

Deno.test("escaped names keep length and order, and come back", () => {
  const names = ["a", "a-b", "a.b", "a/b", "a/b-c", "a0", "a__b", "a.b/c-d.e"];
  for (const name of names) {
    assert.equal(unescapeName(escapeName(name)), name);
    assert.equal(escapeName(name).length, name.length);
  }
  const escaped = names.map(escapeName);
  assert.deepEqual(escaped.toSorted(), names.toSorted().map(escapeName));
});

Deno.test("an Lru forgets the least recently used beyond its cost", () => {
  const lru = new Lru<string>(6, (value) => value.length);
  lru.set("a", "aa");
  lru.set("b", "bb");
  lru.set("c", "cc");
  assert.equal(lru.get("a"), "aa");
  lru.set("d", "d");
  assert.equal(lru.get("b"), undefined);
  assert.equal(lru.get("a"), "aa");
  lru.set("huge", "1234567");
  assert.equal(lru.get("huge"), undefined);
  assert.equal(lru.get("d"), "d");
  lru.set("a", "aaaa");
  assert.equal(lru.get("c"), undefined);
  lru.delete("a");
  assert.equal(lru.get("a"), undefined);
});

Deno.test("a gate lets shared work run together and exclusive work alone", async () => {
  const gate = new Gate();
  const seen: string[] = [];
  const work = (name: string) => async () => {
    seen.push(`+${name}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
    seen.push(`-${name}`);
  };
  const failing = gate.exclusive(() => Promise.reject(new Error("x")));
  await assert.rejects(failing, /x/);
  const a = gate.shared(work("a"));
  const b = gate.shared(work("b"));
  await Promise.resolve();
  await Promise.all([a, b, gate.exclusive(work("X")), gate.shared(work("c"))]);
  assert.deepEqual(seen, ["+a", "+b", "-a", "-b", "+X", "-X", "+c", "-c"]);
});

Deno.test("a reading that a write overtook is not remembered", async () => {
  const cache = new ReadCache<string>(10, () => 1);
  const slow = Promise.withResolvers<string>();
  const reading = cache.read("k", () => slow.promise);
  cache.forget("k");
  slow.resolve("before");
  assert.equal(await reading, "before");
  assert.equal(await cache.read("k", () => Promise.resolve("after")), "after");
  assert.equal(await cache.read("k", () => Promise.reject(new Error("asked again"))), "after");
});
