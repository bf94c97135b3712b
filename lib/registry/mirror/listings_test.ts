import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { digestOf } from "../../oci/digest.ts";
import { MEDIA } from "../../oci/types.ts";
import { FakeUpstream, mirrored, noise } from "./fixture_test.ts";
import { merged } from "../merged.ts";
import { Upstreams } from "./upstreams.ts";

async function* of(...names: string[]) {
  yield* names;
}

Deno.test("mirror listings: two sorted listings as one", async () => {
  const both = (a: string[], b: string[]) =>
    Array.fromAsync(merged(of(...a), of(...b), (name) => name));
  assert.deepEqual(await both(["a", "c"], ["b", "c", "d"]), ["a", "b", "c", "d"]);
  assert.deepEqual(await both([], ["x"]), ["x"]);
  assert.deepEqual(await both(["x"], []), ["x"]);
  assert.deepEqual(await both([], []), []);
});

Deno.test("mirror listings: tags of both, paged; those here where the upstream is down", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  upstream.addImage("app", noise(1), "a", "c", "e");
  await it.pushManifest("app", "b", await it.image("app", "x"));
  await it.pushManifest("app", "c", await it.image("app", "y"));
  const tags = async (query = "") =>
    (await (await it.send("GET", `/v2/app/tags/list${query}`)).json()).tags;
  assert.deepEqual(await tags(), ["a", "b", "c", "e"]);
  assert.deepEqual(await tags("?n=2"), ["a", "b"]);
  assert.deepEqual(await tags("?n=2&last=b"), ["c", "e"]);
  upstream.addImage("theirs", noise(2), "v1");
  assert.equal((await it.send("GET", "/v2/theirs/tags/list")).status, 200);
  assert.equal((await it.send("GET", "/v2/nobodys/tags/list")).status, 404);
  upstream.down();
  assert.deepEqual(await tags(), ["b", "c"]);
  upstream.addImage("unseen", noise(3), "v1");
  assert.equal((await it.send("GET", "/v2/unseen/tags/list")).status, 502);
  const referrers = `/v2/unseen/referrers/${digestOf(noise(3))}`;
  assert.equal((await it.send("GET", referrers)).status, 502);
});

Deno.test("mirror listings: referrers of both, each once", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const subject = upstream.addImage("app", noise(1), "v1");
  const { mediaType, digest, size } = subject;
  const text = await it.image("app", "signature", {
    artifactType: "application/x-mine",
    subject: { mediaType, digest, size },
  });
  const put = await it.pushManifest("app", "signature", text);
  const mine = put.headers.get("docker-content-digest")!;
  const other = {
    ...upstream.addBlob(noise(4)),
    mediaType: MEDIA.manifest,
    artifactType: "x/other",
  };
  upstream.referring = [{ mediaType: MEDIA.manifest, digest: mine, size: text.length }, other];
  const list = async (query = "") => {
    const response = await it.send("GET", `/v2/app/referrers/${digest}${query}`);
    return (await response.json()).manifests.map((one: { digest: string }) => one.digest);
  };
  assert.deepEqual(await list(), [mine, other.digest].sort());
  assert.deepEqual(await list("?n=1"), [[mine, other.digest].sort()[0]]);
  assert.deepEqual(await list("?artifactType=x/other"), [other.digest]);
  upstream.down();
  assert.deepEqual(await list(), [mine]);
});

Deno.test("mirror: upstreams by prefix, the longest first, the rest to the one without", () => {
  const rule = (host: string, prefix?: string) => ({ host, source: new FakeUpstream(), prefix });
  const upstreams = new Upstreams(
    [rule("rest"), rule("short", "a"), rule("long", "a/b"), rule("docker.io", "hub")],
    { pauseMs: 0, log: silent },
  );
  const where = (name: string) => {
    const { host, repository } = upstreams.find(name)!;
    return `${host} ${repository}`;
  };
  assert.equal(where("a/b/c"), "long c");
  assert.equal(where("a/bc"), "short bc");
  assert.equal(where("ab/c"), "rest ab/c");
  assert.equal(where("a"), "rest a");
  assert.equal(where("hub/busybox"), "docker.io library/busybox");
  assert.equal(where("hub/org/app"), "docker.io org/app");
  const only = new Upstreams([rule("short", "a")], { pauseMs: 0, log: silent });
  assert.equal(only.find("b/c"), undefined);
});

Deno.test("mirror: repositories that no upstream has a claim on never leave the process", async () => {
  const upstream = new FakeUpstream();
  upstream.failure = new SvcError("internal", "not to be asked");
  await using it = await mirrored(upstream, { prefix: "up" });
  assert.equal((await it.send("GET", "/v2/app/manifests/v1")).status, 404);
  assert.equal((await it.send("GET", "/v2/app/tags/list")).status, 404);
  assert.equal((await it.pushManifest("app", "v1", await it.image("app", "x"))).status, 201);
  assert.deepEqual(upstream.asked, []);
});
