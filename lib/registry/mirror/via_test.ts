import assert from "node:assert/strict";
import { instanceName, isCircle, mirrorsIn, viaField } from "./via.ts";

Deno.test("via: mirrors are told from other proxies", () => {
  const [a, b] = [instanceName(), instanceName()];
  assert.notEqual(a, b);
  assert.deepEqual(mirrorsIn(undefined), []);
  assert.deepEqual(mirrorsIn(viaField([], a)), [a]);
  assert.deepEqual(mirrorsIn(viaField([a], b)), [a, b]);
  assert.deepEqual(mirrorsIn(`1.0 fred, HTTP/1.1 x, 1.1 ${a}, 1.1 svc-short,, 2 ${b} `), [a, b]);
  assert.deepEqual(mirrorsIn(`1.1 ${a} (comment)`), []);
});

Deno.test("via: a circle is one's own name, or a way without end", () => {
  const own = instanceName();
  assert.equal(isCircle([], own), false);
  assert.equal(isCircle([instanceName()], own), false);
  assert.equal(isCircle([instanceName(), own], own), true);
  assert.equal(isCircle(Array.from({ length: 10 }, instanceName), own), true);
});
