import assert from "node:assert/strict";
import { MAX_TOKEN, presentedToken, tokenOf } from "./credential.ts";

const refused = (message: RegExp) => ({ code: "unauthorized", message });

Deno.test("credential: a token is visible ASCII of bounded length", () => {
  const longest = "x".repeat(MAX_TOKEN);
  assert.equal(presentedToken(longest).text, longest);
  for (const text of ["", "a b", "a\n", "é", `${longest}x`]) {
    assert.throws(() => presentedToken(text), refused(/: it is malformed$/), text.slice(0, 9));
  }
});

Deno.test("credential: Bearer everywhere, Basic's password where it is allowed", () => {
  const basic = (pair: string) => `Basic ${btoa(pair)}`;
  assert.equal(tokenOf("bEARER  abc ", false), "abc");
  assert.equal(tokenOf(basic("any:pass:word"), true), "pass:word");
  assert.equal(tokenOf(basic(`:${"x".repeat(MAX_TOKEN)}`), true).length, MAX_TOKEN);
  assert.throws(() => tokenOf(basic("a:b"), false), refused(/expected the scheme Bearer$/));
  assert.throws(() => tokenOf("Digest a", true), refused(/expected the scheme Bearer or Basic$/));
  assert.throws(() => tokenOf(basic("no colon"), true), refused(/: it is malformed$/));
  const long = `Basic ${"a".repeat(2 * MAX_TOKEN + 1)}`;
  assert.throws(() => tokenOf(long, true), refused(/: it is too long$/));
});
