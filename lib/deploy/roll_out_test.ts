import assert from "node:assert/strict";
import { batchesOf } from "./roll_out.ts";

const same = (replica: number) => replica;
const some = (...replicas: number[]) => replicas;
const batches = (parallelism: number | undefined, made: number[], old: number[]) =>
  batchesOf(parallelism, made, old, same).map((batch) => [batch.made, batch.old]);

Deno.test("batches: so many at a time, each with those that it replaces, the rest with the last", () => {
  assert.deepEqual(batches(undefined, some(0, 1), some(0, 1)), [[[0, 1], [0, 1]]]);
  assert.deepEqual(batches(0, some(0, 1), some(0, 1, 2)), [[[0, 1], [0, 1, 2]]]);
  assert.deepEqual(batches(2, some(0, 1, 2), some(0, 1)), [[[0, 1], [0, 1]], [[2], []]]);
  assert.deepEqual(batches(1, some(0, 1), some(0, 1, 2, 3)), [[[0], [0]], [[1], [1, 2, 3]]]);
  assert.deepEqual(batches(1, some(), some(3)), [[[], [3]]]);
});
