import assert from "node:assert/strict";
import { StandIns } from "./stand_ins.ts";

Deno.test("stand-ins: a name has one address, and an address one name", () => {
  const all = new StandIns();
  const one = all.addressOf("a.test");
  assert.match(one, /^198\.1[89]\.\d+\.\d+$/);
  assert.equal(all.addressOf("a.test"), one);
  assert.notEqual(all.addressOf("b.test"), one);
  assert.equal(all.nameOf(one), "a.test");
  assert.equal(all.nameOf("198.18.255.255"), undefined);
});

Deno.test("stand-ins: the name that was asked for longest ago goes first", () => {
  const all = new StandIns(2);
  const [a, b] = ["a", "b"].map((name) => all.addressOf(name));
  all.addressOf("a");
  const c = all.addressOf("c");
  assert.deepEqual([a, b, c].map((address) => all.nameOf(address)), ["a", undefined, "c"]);
});
