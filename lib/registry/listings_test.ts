import assert from "node:assert/strict";
import { MEDIA } from "../oci/types.ts";
import { digest, failure, registry } from "./fixture_test.ts";

/** Follows Link headers to the end. */
async function pages({ send }: ReturnType<typeof registry>, path: string, member: string) {
  const found: string[][] = [];
  for (let next: string | undefined = path; next;) {
    const response: Response = await send("GET", next);
    assert.equal(response.status, 200);
    found.push((await response.json())[member]);
    const link: string | null = response.headers.get("link");
    next = link === null ? undefined : /^<(\/v2\/[^>]+)>; rel="next"$/.exec(link)![1];
  }
  return found;
}

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

Deno.test("referrers are listed, filtered, and gone with their manifest", async () => {
  const r = registry();
  const base = await r.image("a", "base");
  await r.pushManifest("a", "v1", base);
  const subject = { mediaType: MEDIA.manifest, digest: digest(base), size: base.length };
  const sbom = await r.image("a", "sbom", { subject, artifactType: "application/sbom" });
  const pushed = await r.pushManifest("a", digest(sbom), sbom);
  assert.equal(pushed.headers.get("oci-subject"), digest(base));
  const plain = await r.image("a", "plain", { subject, annotations: { note: "hi" } });
  await r.pushManifest("a", digest(plain), plain);
  const list = async (query = "") => {
    const response = await r.send("GET", `/v2/a/referrers/${digest(base)}${query}`);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), MEDIA.index);
    const index = await response.json();
    assert.equal(index.mediaType, MEDIA.index);
    assert.equal(index.schemaVersion, 2);
    return { filters: response.headers.get("oci-filters-applied"), manifests: index.manifests };
  };
  const all = await list();
  assert.equal(all.filters, null);
  assert.deepEqual(
    all.manifests.map((item: { digest: string }) => item.digest),
    [digest(sbom), digest(plain)].sort(),
  );
  const some = await list("?artifactType=application/sbom");
  assert.equal(some.filters, "artifactType");
  assert.deepEqual(some.manifests, [{
    mediaType: MEDIA.manifest,
    digest: digest(sbom),
    size: sbom.length,
    artifactType: "application/sbom",
  }]);
  assert.equal(
    (await list(`?artifactType=${encodeURIComponent(MEDIA.config)}`)).manifests.length,
    1,
  );
  await r.send("DELETE", `/v2/a/manifests/${digest(sbom)}`);
  assert.equal((await list()).manifests.length, 1);
  const none = await r.send("GET", `/v2/a/referrers/${digest("nobody")}`);
  assert.deepEqual((await none.json()).manifests, []);
  assert.equal(
    await failure(await r.send("GET", "/v2/a/referrers/sha256:x")),
    "400 DIGEST_INVALID",
  );
});
