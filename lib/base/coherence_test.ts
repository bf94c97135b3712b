import assert from "node:assert/strict";
import { completed, readCoherence } from "./coherence.ts";

Deno.test("coherence: words between commas and spaces; what implies what; others are refused", () => {
  assert.deepEqual(readCoherence(""), []);
  assert.deepEqual(readCoherence("classic"), []);
  assert.deepEqual(readCoherence(" defer, subhash  "), ["subhash", "defer"]);
  assert.deepEqual(readCoherence("subfill"), ["subhash", "subfill"]);
  assert.deepEqual(completed(["defer"]), ["defer"]);
  assert.throws(() => readCoherence("subhash,async"), /"async" is not one of subhash/);
});
