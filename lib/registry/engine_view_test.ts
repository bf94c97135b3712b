/** The images of an engine through the registry's rows, by whatever names people give them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { openMemStore } from "../../backends/store/mem.ts";
import { SvcError } from "../base/errors.ts";
import { silent } from "../base/log.ts";
import { ExportCache } from "../docker/images/export_cache.ts";
import { EngineImages } from "../docker/images/reader.ts";
import { encode, FakeEngine, fakeImage } from "../docker/images/testing.ts";
import { createContentStore } from "../store/content.ts";
import { EngineView, forUnion } from "./engine_view.ts";
import { digest, failure, pages, registry } from "./fixture_test.ts";
import { unionView } from "./union.ts";

async function fixture() {
  const folder = await Deno.makeTempDir({ prefix: "svc-engine-view-" });
  const engine = new FakeEngine();
  const cache = new ExportCache({
    folder: join(folder, "images"),
    export: (id, signal) => engine.export(id, signal),
    log: silent,
  });
  const reader = new EngineImages(engine, cache);
  const ready = async () => void await engine.list();
  const view = new EngineView({
    images: () =>
      Promise.resolve({ reader, ready, repositories: (call) => reader.repositories(call) }),
    isOwn: (host) => host === "localhost:5000" || host === "me.example",
    ownHost: () => "localhost:5000",
  });
  const own = createContentStore(openMemStore(), { log: silent });
  const shown = async (repository: string, tag: string) => {
    const { send } = registry(own, { reader: view });
    const answer = await send("HEAD", `/v2/${repository}/manifests/${tag}`);
    return answer.status === 200 ? answer.headers.get("docker-content-digest") : answer.status;
  };
  return {
    engine,
    view,
    own,
    shown,
    ...registry(own, { reader: view }),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

const image = (text: string) => fakeImage([encode(text)]);
const away = new SvcError("unavailable", "Cannot reach the engine: it is away");

Deno.test("view: catalog, tags and pulls agree about names", async () => {
  await using at = await fixture();
  at.engine.add(image("app"), "app:v1", "app:v2");
  at.engine.add(image("tool"), "ghcr.io/org/tool:latest");
  at.engine.add(image("own"), "localhost:5000/own:v1", "me.example/app:v3");
  at.engine.add(image("elsewhere"), "registry.corp:5000/team/app:v1");
  at.engine.add(image("podman"), "localhost/built:v1");
  at.engine.add(image("unnamed"));
  assert.deepEqual(await pages(at, "/v2/_catalog?n=2", "repositories"), [
    ["app", "built"],
    ["ghcr.io/org/tool", "own"],
  ]);
  assert.deepEqual(await pages(at, "/v2/app/tags/list?n=2", "tags"), [["v1", "v2"], ["v3"]]);
  assert.deepEqual(await pages(at, "/v2/library/app/tags/list", "tags"), [["v1", "v2", "v3"]]);
  const digests = await Promise.all([
    at.shown("app", "v1"),
    at.shown("app", "v2"),
    at.shown("library/app", "v1"),
    at.shown("docker.io/library/app", "v1"),
  ]);
  assert.match(String(digests[0]), /^sha256:/);
  assert.equal(new Set(digests).size, 1);
  for (const [name, tag] of [["ghcr.io/org/tool", "latest"], ["own", "v1"], ["built", "v1"]]) {
    assert.match(String(await at.shown(name, tag)), /^sha256:/, name);
  }
  assert.equal(await at.shown("own", "v1"), await at.shown("app", "v3"));
  for (const [name, tag] of [["app", "v4"], ["team/app", "v1"], ["tool", "latest"]]) {
    assert.equal(await at.shown(name, tag), 404, name);
  }
  assert.equal(await failure(await at.send("GET", "/v2/none/tags/list")), "404 NAME_UNKNOWN");
});

Deno.test("view: a name with this server's address counts where the plain name is missing", async () => {
  await using at = await fixture();
  at.engine.add(image("pulled back"), "localhost:5000/app:v1");
  const before = await at.shown("app", "v1");
  at.engine.add(image("built since"), "app:v1");
  const after = await at.shown("app", "v1");
  assert.notEqual(after, before);
  assert.deepEqual(await at.view.aliases("app", "v1"), ["localhost:5000/app:v1"]);
  assert.deepEqual(await at.view.aliases("app", "v2"), []);
  at.engine.add(image("elsewhere"), "registry.corp:5000/team/app:v1");
  const located = (name: string, tag: string) => at.view.locate(name, tag);
  assert.equal(await located("app", "v1"), "app:v1");
  assert.equal(await located("docker.io/library/app", "v1"), "app:v1");
  assert.equal(
    await located("registry.corp:5000/team/app", "v1"),
    "registry.corp:5000/team/app:v1",
  );
  assert.equal(await located("team/app", "v1"), undefined);
  at.engine.remove(image("built since").id);
  assert.equal(await located("app", "v1"), "localhost:5000/app:v1");
  assert.equal(at.engine.exports.length, 2);
});

Deno.test("view: blobs with HEAD, ranges and conditions; no referrers; nothing is taken", async () => {
  await using at = await fixture();
  const { id, diffIDs } = fakeImage([encode("0123456789")]);
  at.engine.add(fakeImage([encode("0123456789")]), "app:v1");
  const manifest = String(await at.shown("app", "v1"));
  const path = `/v2/app/blobs/${diffIDs[0]}`;
  assert.equal((await at.send("HEAD", path)).headers.get("content-length"), "10");
  const range = await at.send("GET", path, { headers: { range: "bytes=2-4" } });
  assert.equal(`${range.status} ${await range.text()}`, "206 234");
  assert.equal((await at.send("GET", path, { headers: { range: "bytes=20-" } })).status, 416);
  const known = { "if-none-match": `"${diffIDs[0]}"` };
  assert.equal((await at.send("GET", path, { headers: known })).status, 304);
  assert.equal((await at.send("GET", `/v2/app/blobs/${id}`)).status, 200);
  assert.equal((await at.send("GET", `/v2/app/manifests/${manifest}`)).status, 200);
  assert.deepEqual(await pages(at, `/v2/app/referrers/${manifest}`, "manifests"), [[]]);
  const push = await at.send("PUT", "/v2/app/manifests/v2", { body: "{}" });
  assert.equal(await failure(push), "405 UNSUPPORTED");
  const upload = await at.send("POST", "/v2/app/blobs/uploads/");
  assert.equal(await failure(upload), "405 UNSUPPORTED");
});

Deno.test("view: an engine that is away is 503 with the reason, and comes back by itself", async () => {
  await using at = await fixture();
  at.engine.add(image("app"), "app:v1");
  at.engine.down = away;
  for (const path of ["/v2/", "/v2/_catalog", "/v2/app/tags/list", "/v2/app/manifests/v1"]) {
    const answer = await at.send("GET", path);
    assert.equal(answer.status, 503, path);
    assert.match((await answer.json()).errors[0].message, /it is away/);
  }
  at.engine.down = undefined;
  assert.equal((await at.send("GET", "/v2/")).status, 200);
  assert.match(String(await at.shown("app", "v1")), /^sha256:/);
});

Deno.test("union: pushes go on while the engine is away; what only it has is 503", async () => {
  await using at = await fixture();
  const both = registry(at.own, unionView(at.own, forUnion(at.view)));
  at.engine.add(image("app"), "theirs:v1");
  assert.equal((await both.send("HEAD", "/v2/theirs/manifests/v1")).status, 200);
  at.engine.down = away;
  assert.equal((await both.send("HEAD", `/v2/app/blobs/${digest("new")}`)).status, 404);
  assert.equal((await both.pushManifest("app", "v1", await both.image("app", "ours"))).status, 201);
  assert.equal((await both.send("GET", "/v2/app/manifests/v1")).status, 200);
  assert.equal((await both.send("GET", "/v2/theirs/manifests/v1")).status, 503);
  assert.equal((await both.send("GET", "/v2/")).status, 200);
});
