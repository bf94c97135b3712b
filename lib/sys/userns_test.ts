import assert from "node:assert/strict";
import { SystemError } from "./errno.ts";
import { idMapping, inUserNamespace, isMapped, ownerError, subordinateIds } from "./userns.ts";

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

Deno.test("userns: which ids a map has", () => {
  const map = "         0       5123          1\n         1     100000      65536\n";
  for (const id of [0, 1, 1000, 65534, 65536]) assert.ok(isMapped(map, id), String(id));
  for (const id of [65537, 5_000_000]) assert.ok(!isMapped(map, id), String(id));
  assert.ok(!isMapped("", 0));
});

Deno.test("userns: outside of one an owner that is refused is told of as it is", () => {
  const error = new SystemError(22, "lchown", "/x");
  if (!inUserNamespace()) assert.equal(ownerError(error, 1, 1), error);
  assert.equal(
    ownerError(new SystemError(1, "lchown", "/x"), 1, 1).message,
    "lchown /x: operation not permitted (EPERM)",
  );
});
