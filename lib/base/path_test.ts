import assert from "node:assert/strict";
import * as node from "node:path";
import { posix, windows } from "./path.ts";

/** Every text of at most `length` of the letters. */
function texts(letters: readonly string[], length: number): string[] {
  const all = [""];
  for (let from = 0; length > 0; length--) {
    const until = all.length;
    for (; from < until; from++) for (const letter of letters) all.push(all[from] + letter);
  }
  return all;
}

Deno.test("names of files are what node:path makes of them", () => {
  for (const one of ["normalize", "dirname", "basename", "isAbsolute", "resolve"] as const) {
    for (const text of [...texts(["/", ".", "a"], 7), "ä/b c.d", "/../../x//y/./"]) {
      const expected = node.posix[one](text);
      assert.equal(posix[one](text), expected, `${one} ${JSON.stringify(text)}`);
    }
  }
  const some = texts(["/", ".", "..", "a", "b"], 3);
  for (const one of ["join", "resolve", "relative"] as const) {
    for (const first of some) {
      for (const second of some) {
        const expected = node.posix[one](first, second);
        assert.equal(posix[one](first, second), expected, `${one} ${first}, ${second}`);
      }
    }
  }
  assert.equal(posix.join("a", "", "/b", "..", "c/"), "a/c/");
  assert.equal(posix.resolve("a", "/b", "c", "../d/"), "/b/d");
  assert.equal(posix.sep, node.posix.sep);
  assert.equal(windows().join("C:\\a", "../b"), node.win32.join("C:\\a", "../b"));
});
