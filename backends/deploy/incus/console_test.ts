import assert from "node:assert/strict";
import { freshOf, Live, overlapOf } from "./console_bytes.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

Deno.test("what came live and was read before is found by its overlap", () => {
  for (
    const [read, live, size] of [
      ["one two", "two three", 3],
      ["aab", "aab", 3],
      ["xaabaa", "aabaac", 5],
      ["aaaa", "aab", 2],
      ["one", "two", 0],
      ["", "two", 0],
      ["one", "", 0],
    ] as const
  ) {
    assert.equal(overlapOf(bytes(read), bytes(live)), size, `${read} | ${live}`);
  }
});

Deno.test("an overlap is found in one pass, whatever a workload prints", () => {
  // Each comparison of beginnings would fail at its end alone: 10^11 steps.
  const read = new Uint8Array(300_000).fill(97);
  const live = new Uint8Array(300_000).fill(97);
  live[299_999] = 98;
  read[0] = 98;
  assert.equal(overlapOf(read, live), 299_999);
});

Deno.test("the part of a console that is not recorded yet", () => {
  const fresh = (console: string, count: number, tail: string) =>
    text(freshOf(bytes(console), count, bytes(tail)));
  assert.equal(fresh("one\ntwo\n", 0, ""), "one\ntwo\n");
  assert.equal(fresh("one\ntwo\n", 4, "one\n"), "two\n");
  // Its beginning has gone.
  assert.equal(fresh("wo\nthree\n", 8, "two\n"), "three\n");
  assert.equal(fresh("xx two\nthree\n", 100, "two\n"), "three\n");
  assert.equal(fresh("three\n", 100, "two\n"), "three\n");
});

Deno.test("returns that Incus's own terminals add are taken away, those of the workload stay", () => {
  const live = (...parts: string[]) => {
    const made = new Live();
    return parts.map((part) => text(made.take(bytes(part)))).join("");
  };
  assert.equal(live("one\r\r\r\ntwo\r\r\r\n"), "one\r\ntwo\r\n");
  // One terminal fewer, and none.
  assert.equal(live("one\r\r\ntwo\r\r\n"), "one\r\ntwo\r\n");
  assert.equal(live("one\r\ntwo\r\n"), "one\r\ntwo\r\n");
  // Over the borders of what comes.
  assert.equal(live("one\r", "\r\r", "\ntwo"), "one\r\ntwo");
  assert.equal(live("10%\r20%\r\r\r\n"), "10%\r20%\r\n");
  assert.equal(live("\r".repeat(1000) + "x"), "\r".repeat(1000) + "x");
  assert.equal(live("\r".repeat(7), "\n"), "\r".repeat(5) + "\n");
});
