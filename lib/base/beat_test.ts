import assert from "node:assert/strict";
import { breathe, every } from "./beat.ts";
import { sleep } from "./sleep.ts";

Deno.test("a beat comes again and again, until it is stopped", async () => {
  let beats = 0;
  const third = Promise.withResolvers<void>();
  const stop = every(5, () => {
    if (++beats === 3) third.resolve();
  });
  const other = every(1, () => assert.fail("it was stopped"));
  other();
  // Beats keep nothing alive: something else does.
  const alive = setTimeout(() => third.reject(new Error("it beats no more")), 30_000);
  await third.promise;
  clearTimeout(alive);
  stop();
  const before = beats;
  await sleep(30);
  assert.equal(beats, before);
});

Deno.test("to breathe is to let others go on", async () => {
  let others = false;
  const timer = sleep(0).then(() => others = true);
  for (let turns = 0; !others && turns < 10_000; turns++) await breathe();
  assert.ok(others);
  await timer;
});
