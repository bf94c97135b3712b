import assert from "node:assert/strict";
import { silent } from "../base/log.ts";
import { ReadyPool } from "./ready_pool.ts";

function pool() {
  let made = 0;
  const there = new Set<number>();
  const bad = new Set<number>();
  const ready = new ReadyPool<number>({
    make: () => {
      there.add(++made);
      return Promise.resolve(made);
    },
    isGood: (one) => Promise.resolve(!bad.has(one)),
    remove: (one) => Promise.resolve(void there.delete(one)),
    log: silent,
  });
  return { ready, there, bad };
}

Deno.test("what was given back is taken again; what is spoiled or no longer good is not", async () => {
  const { ready, there, bad } = pool();
  const one = await ready.take();
  await ready.giveBack(one, { spoiled: true });
  assert.equal(there.has(one), false);
  const two = await ready.take();
  assert.notEqual(two, one);
  await ready.giveBack(two);
  assert.equal(await ready.take(), two);
  await ready.giveBack(two);
  bad.add(two);
  assert.notEqual(await ready.take(), two);
  assert.equal(there.has(two), false);
  await ready.stop();
});

Deno.test("nobody has what another has, some wait ahead, and nothing is left at the end", async () => {
  const { ready, there } = pool();
  const taken = await Promise.all(Array.from({ length: 12 }, () => ready.take()));
  assert.equal(new Set(taken).size, 12);
  await new Promise((resolve) => setTimeout(resolve));
  assert.ok(there.size > 12);
  await ready.stop();
  for (const one of taken) await ready.giveBack(one);
  assert.equal(there.size, 0);
});

Deno.test("a failure is its taker's, not one's that is made ahead", async () => {
  const ready = new ReadyPool<number>({
    make: () => Promise.reject(new Error("no")),
    isGood: () => Promise.resolve(true),
    remove: () => Promise.resolve(),
    log: silent,
  });
  ready.prepare();
  await assert.rejects(ready.take(), /no/);
  await ready.stop();
});
