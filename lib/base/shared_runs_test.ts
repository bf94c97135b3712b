import assert from "node:assert/strict";
import { SharedRuns } from "./shared_runs.ts";

Deno.test("calls during a run share the next one, which sees what was there at each of them", async () => {
  let value = 0;
  const seen: number[] = [];
  const runs = new SharedRuns(async () => {
    const at = value;
    await new Promise((resolve) => setTimeout(resolve, 5));
    seen.push(at);
  });
  const first = runs.run();
  const later = [1, 2, 3].map((next) => {
    value = next;
    return runs.run();
  });
  await first;
  assert.deepEqual(seen, [0]);
  const more = runs.run();
  await Promise.all([...later, more]);
  assert.deepEqual(seen.slice(0, 2), [0, 3]);
  assert.ok(seen.length <= 3);
});

Deno.test("a run that fails is told to those who share it, and to nobody else", async () => {
  const outcomes = [new Error("first"), undefined, new Error("third")];
  const runs = new SharedRuns(async () => {
    await Promise.resolve();
    const error = outcomes.shift();
    if (error) throw error;
  });
  const all = [runs.run(), runs.run(), runs.run()];
  await assert.rejects(all[0], /first/);
  await all[1];
  await all[2];
  await assert.rejects(runs.run(), /third/);
});
