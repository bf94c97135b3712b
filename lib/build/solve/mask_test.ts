import assert from "node:assert/strict";
import { Mask } from "./mask.ts";

const masked = (secrets: string[], pieces: string[]) => {
  const mask = new Mask(secrets.map((text) => new TextEncoder().encode(text)));
  return pieces.map((piece) => mask.push(piece)).join("") + mask.flush();
};

Deno.test("a secret is masked, wherever its output is cut", () => {
  const text = "before s3cret-value after, s3cret-valu, s3cret-value";
  const wanted = "before *** after, s3cret-valu, ***";
  for (let at = 0; at <= text.length; at++) {
    for (let end = at; end <= text.length; end += 7) {
      const pieces = [text.slice(0, at), text.slice(at, end), text.slice(end)];
      assert.equal(masked(["s3cret-value\n"], pieces), wanted);
    }
  }
});

Deno.test("lines of a long secret are masked, short values are not", () => {
  assert.equal(masked(["-----KEY\nabcdef\n-----END"], ["x abcdef\n-----KEY y"]), "x ***\n*** y");
  assert.equal(masked(["abc"], ["abcdef"]), "abcdef");
  assert.equal(masked([], ["anything"]), "anything");
  assert.equal(masked(["prefix", "prefix-long"], ["prefix-long prefix"]), "*** ***");
});
