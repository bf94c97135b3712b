import assert from "node:assert/strict";
import { Turns } from "./turns.ts";

Deno.test("an answer that was overtaken is old; others, and those of another key, are not", () => {
  const turns = new Turns();
  using first = turns.begin("a");
  using second = turns.begin("a");
  using third = turns.begin("a");
  using other = turns.begin("b");
  second.take();
  assert.deepEqual([first, second, third, other].map(({ old }) => old), [
    true,
    false,
    false,
    false,
  ]);
  turns.end("a");
  assert.deepEqual([second, third, other].map(({ old }) => old), [true, true, false]);
  using fourth = turns.begin("a");
  fourth.take();
  assert.equal(fourth.old, false);
});
