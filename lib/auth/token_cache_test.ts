import assert from "node:assert/strict";
import { TokenCache } from "./token_cache.ts";
import type { Verified } from "./verifier.ts";

const verified = (subject: string, more: Partial<Verified> = {}): Verified => ({
  identity: { subject, scopes: [] },
  ...more,
});

Deno.test("token cache: until a token's end, and while what verified it holds", () => {
  let now = 0;
  let holds = true;
  const cache = new TokenCache(() => now);
  cache.set({ text: "a" }, verified("a", { expires: 10 }));
  cache.set({ text: "b" }, verified("b", { holds: () => holds }));
  assert.equal(cache.get("a")?.identity.subject, "a");
  assert.equal(cache.get("A"), undefined);
  now = 10;
  assert.equal(cache.get("a"), undefined);
  assert.equal(cache.get("b")?.identity.subject, "b");
  holds = false;
  assert.equal(cache.get("b"), undefined);
  holds = true;
  assert.equal(cache.get("b"), undefined);
});

Deno.test("token cache: bounded, the oldest goes", () => {
  const cache = new TokenCache(() => 0, 3);
  for (const text of ["a", "b", "c", "d"]) cache.set({ text }, verified(text));
  assert.deepEqual(["a", "b", "c", "d"].map((text) => cache.get(text)?.identity.subject), [
    undefined,
    "b",
    "c",
    "d",
  ]);
});
