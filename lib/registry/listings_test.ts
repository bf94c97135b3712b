import assert from "node:assert/strict";
import { digest, failure, pages, registry } from "./fixture_test.ts";

Deno.test("tags and repositories are paged by n, last and Link", async () => {
  const r = registry();
  const text = await r.image("a/b", "x");
  for (const tag of ["c", "a", "B", "d", "e"]) await r.pushManifest("a/b", tag, text);
  await r.pushManifest("z", "v1", text);
  await r.pushManifest("a-b", "v1", text);
  assert.deepEqual(await pages(r, "/v2/a/b/tags/list", "tags"), [["B", "a", "c", "d", "e"]]);
  assert.deepEqual(await pages(r, "/v2/a/b/tags/list?n=2", "tags"), [["B", "a"], ["c", "d"], [
    "e",
  ]]);
  assert.deepEqual(await pages(r, "/v2/a/b/tags/list?n=5", "tags"), [["B", "a", "c", "d", "e"]]);
  assert.deepEqual(await pages(r, "/v2/a/b/tags/list?last=bb", "tags"), [["c", "d", "e"]]);
  assert.deepEqual(await pages(r, "/v2/a/b/tags/list?n=0", "tags"), [[]]);
  assert.deepEqual(await pages(r, "/v2/_catalog?n=1", "repositories"), [["a-b"], ["a/b"], ["z"]]);
  assert.deepEqual(await pages(r, "/v2/_catalog?last=a/b", "repositories"), [["z"]]);
  assert.equal((await r.send("GET", "/v2/_catalog?n=x")).status, 400);
  assert.equal(await failure(await r.send("GET", "/v2/none/tags/list")), "404 NAME_UNKNOWN");
  assert.equal(await failure(await r.send("GET", "/v2/No/tags/list")), "400 NAME_INVALID");
});

Deno.test("a repository without tags has an empty list", async () => {
  const r = registry();
  const text = await r.image("a", "x");
  await r.pushManifest("a", digest(text), text);
  assert.deepEqual(await pages(r, "/v2/a/tags/list", "tags"), [[]]);
});
