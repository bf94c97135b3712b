import assert from "node:assert/strict";
import { idMapping, inUserNamespace, subordinateIds } from "./userns.ts";

Deno.test("userns: ranges by name and by number", () => {
  const text = [
    "# a comment",
    "ann:100000:65536",
    "bob:165536:65536",
    "1000:300000:10",
    "ann:broken:1",
    "ann:5",
    "ann:7:0",
    "ann:1:2:3",
    "",
  ].join("\n");
  assert.deepEqual(subordinateIds(text, { name: "ann", uid: 1000 }), [
    { start: 100000, count: 65536 },
    { start: 300000, count: 10 },
  ]);
  assert.deepEqual(subordinateIds(text, { uid: 1000 }), [{ start: 300000, count: 10 }]);
  assert.deepEqual(subordinateIds(text, { name: "eve", uid: 1001 }), []);
});

Deno.test("userns: ranges are mapped one after the other, the caller first", () => {
  const ranges = [{ start: 100000, count: 65536 }, { start: 300000, count: 10 }];
  assert.deepEqual(
    idMapping(1000, ranges).join(" "),
    "0 1000 1 1 100000 65536 65537 300000 10",
  );
});

Deno.test({
  name: "userns: this process is in one where its map is not the whole range",
  ignore: Deno.build.os !== "linux",
  fn: () => {
    const map = Deno.readTextFileSync("/proc/self/uid_map").trim().split(/\s+/).join(" ");
    assert.equal(inUserNamespace(), map !== "0 0 4294967295");
  },
});
