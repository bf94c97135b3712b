import assert from "node:assert/strict";
import { checkCallerMounts, MAX_MOUNTS } from "../../api/caller_mounts.ts";
import { parseMountSource } from "./source.ts";

Deno.test("--mount: source, target and :ro; what it is not is refused", () => {
  const read = (source: string, target: string, readOnly = false) => ({ source, target, readOnly });
  assert.deepEqual(parseMountSource("./a:/b"), read("./a", "/b"));
  assert.deepEqual(parseMountSource("a:/b/:ro"), read("a", "/b", true));
  assert.deepEqual(parseMountSource("a:/b:rw"), read("a", "/b"));
  assert.deepEqual(parseMountSource("C:\\x:/b"), read("C:\\x", "/b"));
  assert.deepEqual(parseMountSource("a,b:/c"), read("a,b", "/c"));
  for (const text of ["", "a", "a:b", ":/b", "a:/", "a:/b/../c", "a:/b//c", "a:/b,nope"]) {
    assert.throws(() => parseMountSource(text), { code: "argument_invalid" }, text);
  }
  for (const text of ["a:/b,cache", "a:/b:ro,cache"]) {
    assert.deepEqual(parseMountSource(text), { ...read("a", "/b", true), cache: true });
  }
  assert.deepEqual(parseMountSource("a:/b,async"), { ...read("a", "/b"), async: true });
  for (const text of ["a:/b:ro,async", "a:/b,cache,async", "a:/b,async,cache"]) {
    assert.throws(() => parseMountSource(text), /with ,async a mount is writable/);
  }
});

Deno.test("mounts of a request: anything but plain targets, each once, is refused", () => {
  const folder = { target: "/a", kind: "folder" };
  assert.deepEqual(checkCallerMounts(undefined), []);
  assert.deepEqual(checkCallerMounts([{ ...folder, readOnly: false, more: 1 }]), [folder]);
  const name = "0f".repeat(32);
  for (const how of [{ readOnly: true, cache: name }, { async: ["defer"] }, { async: [] }]) {
    assert.deepEqual(checkCallerMounts([{ ...folder, ...how }]), [{ ...folder, ...how }]);
  }
  const refused: unknown[] = [
    null,
    {},
    [null],
    [folder, folder],
    [{ ...folder, kind: "device" }],
    [{ ...folder, readOnly: "yes" }],
    [{ ...folder, cache: name }],
    [{ ...folder, readOnly: true, cache: "../etc" }],
    [{ ...folder, readOnly: true, cache: name, async: [] }],
    [{ ...folder, readOnly: true, async: [] }],
    [{ ...folder, async: ["later"] }],
    [{ ...folder, async: "subhash" }],
    ...["/", "a", "/a/", "/a/../b", "/a\0", `/${"a".repeat(5000)}`].map((
      target,
    ) => [{ ...folder, target }]),
    Array.from({ length: MAX_MOUNTS + 1 }, (_, n) => ({ ...folder, target: `/${n}` })),
  ];
  for (const value of refused) {
    assert.throws(() => checkCallerMounts(value), { code: "argument_invalid" });
  }
});
