import assert from "node:assert/strict";
import { MAX_MANIFEST_BYTES } from "../oci/manifest.ts";
import { type Descriptor, type Index, MEDIA } from "../oci/types.ts";
import { bytesOf, digest, failure, pages, registry } from "./fixture_test.ts";

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

/** Pushes `count` referrers of a subject that is not there, each with what `extra` adds; gives their list. */
async function referring(
  r: ReturnType<typeof registry>,
  count: number,
  extra: (n: number) => Record<string, unknown>,
) {
  const subject = { mediaType: MEDIA.manifest, digest: digest("subject"), size: 7 };
  const digests: string[] = [];
  for (let n = 0; n < count; n++) {
    const text = await r.image("a", `r${n}`, { subject, ...extra(n) });
    assert.equal((await r.pushManifest("a", digest(text), text)).status, 201);
    digests.push(digest(text));
  }
  return { path: `/v2/a/referrers/${subject.digest}`, digests: digests.sort() };
}

const digestsOf = (all: Descriptor[][]) => all.map((page) => page.map((item) => item.digest));

Deno.test("referrers are paged by n, last and Link, filters kept", async () => {
  const r = registry();
  const { path, digests } = await referring(r, 5, (n) => ({ artifactType: `x/${n % 2}` }));
  const list = async (query = "") =>
    digestsOf(await pages<Descriptor>(r, `${path}${query}`, "manifests"));
  assert.deepEqual(await list(), [digests]);
  assert.deepEqual(await list("?n=5"), [digests]);
  assert.deepEqual(await list("?n=2"), [
    digests.slice(0, 2),
    digests.slice(2, 4),
    digests.slice(4),
  ]);
  assert.deepEqual(await list(`?last=${digests[2]}`), [digests.slice(3)]);
  assert.deepEqual(await list(`?last=${digests[4]}`), [[]]);
  assert.deepEqual(await list("?n=0"), [[]]);
  const even = await pages<Descriptor>(r, `${path}?n=1&artifactType=x/0`, "manifests");
  assert.deepEqual(even.map((page) => page.map((item) => item.artifactType)), [["x/0"], ["x/0"], [
    "x/0",
  ]]);
  assert.deepEqual(await list("?n=4&artifactType=x/0&artifactType=x/1"), [
    digests.slice(0, 4),
    digests.slice(4),
  ]);
  const first = await r.send("GET", `${path}?n=1&artifactType=x/0`);
  assert.equal(first.headers.get("oci-filters-applied"), "artifactType");
  assert.match(first.headers.get("link")!, /artifactType=x%2F0/);
  await first.body?.cancel();
  assert.equal((await r.send("GET", `${path}?n=-1`)).status, 400);
  assert.equal(await failure(await r.send("GET", `${path}?last=x`)), "400 DIGEST_INVALID");
  const head = await r.send("HEAD", `${path}?n=1`);
  assert.equal(head.status, 200);
  assert.ok(Number(head.headers.get("content-length")) > 0);
});

Deno.test("no page of referrers has more than clients take", async () => {
  const r = registry();
  const note = "n".repeat(1_500_000);
  const { path, digests } = await referring(r, 5, () => ({ annotations: { note } }));
  const found: string[] = [];
  let count = 0;
  for (let next: string | undefined = path; next; count++) {
    const response: Response = await r.send("GET", next);
    const text = await response.text();
    assert.ok(bytesOf(text).length <= MAX_MANIFEST_BYTES, `${text.length} bytes`);
    assert.equal(response.headers.get("content-length"), String(bytesOf(text).length));
    const { manifests } = JSON.parse(text) as Index;
    for (const item of manifests) assert.equal(item.annotations?.note, note);
    found.push(...manifests.map((item) => item.digest));
    const link: string | null = response.headers.get("link");
    next = link === null ? undefined : /^<([^>]+)>/.exec(link)![1];
  }
  assert.deepEqual(found, digests);
  assert.equal(count, 3);
});

Deno.test("a referrer whose annotations fill a page by themselves is listed without them", async () => {
  const r = registry();
  const subject = { mediaType: "a", digest: digest("subject"), size: 7 };
  const shell = JSON.stringify({
    schemaVersion: 2,
    manifests: [],
    subject,
    annotations: { n: "" },
  });
  const text = shell.replace(
    '"n":""',
    `"n":"${"n".repeat(MAX_MANIFEST_BYTES - bytesOf(shell).length)}"`,
  );
  const put = await r.send("PUT", `/v2/a/manifests/${digest(text)}`, {
    body: text,
    headers: { "content-type": MEDIA.index },
  });
  assert.equal(put.status, 201);
  const response = await r.send("GET", `/v2/a/referrers/${subject.digest}`);
  const page = await response.text();
  assert.ok(bytesOf(page).length < MAX_MANIFEST_BYTES, `${page.length} bytes`);
  assert.deepEqual(JSON.parse(page).manifests, [{
    mediaType: MEDIA.index,
    digest: digest(text),
    size: MAX_MANIFEST_BYTES,
  }]);
});
