/** The registry view of a real containerd, by its handlers: pushes, pulls, deletes, and what the collector takes. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { silent } from "../../lib/base/log.ts";
import { Leases } from "../../lib/containerd/api.ts";
import { ContainerdClient } from "../../lib/containerd/client.ts";
import { ContainerdContent } from "../../lib/containerd/content.ts";
import { GarbageCollection } from "../../lib/containerd/garbage.ts";
import { Content, Images } from "../../lib/containerd/image_api.ts";
import { ContainerdImages } from "../../lib/containerd/images.ts";
import { openContainerdRegistry } from "../../lib/containerd/registry/mod.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { MEDIA } from "../../lib/oci/types.ts";
import { enginePush } from "../../lib/registry/engine_push.ts";
import { EngineView } from "../../lib/registry/engine_view.ts";
import { bytesOf, digest, failure, pages, registry } from "../../lib/registry/fixture_test.ts";
import { requireTools } from "../e2e/harness.ts";
import { type ContainerdPeer, startContainerd } from "../peers/containerd.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { CONTENT, registryReaderContract } from "./registry_reader.ts";

const HOST = "localhost:5000";

interface Version {
  name: string;
  unstable: boolean;
  ignore: boolean;
  peer?: ContainerdPeer & { home: string };
}

const VERSIONS: Version[] = [
  { name: "containerd 1.6", unstable: false, files: [] },
  { name: "containerd 2", unstable: true, files: [UNSTABLE_READY] },
].map(({ files, ...version }) => ({
  ...version,
  ignore: requireTools({ root: true, commands: ["containerd"], files }).ignore,
}));

/** That of the test that runs. */
let peer: ContainerdPeer;
let namespaces = 0;

Deno.test.beforeAll(async () => {
  await Promise.all(VERSIONS.map(async (version) => {
    if (version.ignore) return;
    const home = await Deno.makeTempDir({ prefix: "svc-ctd-registry-" });
    version.peer = { ...await startContainerd(home, version), home };
  }));
});

Deno.test.afterAll(async () => {
  for (const { peer } of VERSIONS) {
    if (!peer) continue;
    await peer[Symbol.asyncDispose]();
    await Deno.remove(peer.home, { recursive: true });
  }
});

/** One server's registry in a namespace. */
function server(client: ContainerdClient, owner = "me", host = HOST, maxNames?: number) {
  const opened = openContainerdRegistry({ client, owner, log: silent, maxNames });
  const { images } = opened;
  const view = new EngineView({
    images: () => Promise.resolve(images),
    isOwn: (other) => other === host,
    ownHost: () => host,
  });
  const writer = enginePush(view, () => Promise.resolve(images.writer));
  return {
    ...registry(undefined, { reader: view, writer }),
    view,
    writer,
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}

type Server = ReturnType<typeof server>;

async function fixture() {
  const namespace = `registry-${namespaces++}`;
  const client = new ContainerdClient({ address: peer.address, namespace });
  const first = server(client);
  const content = new ContainerdContent(client, "test");
  const garbage = new GarbageCollection(client, silent);
  return {
    ...first,
    client,
    content,
    async names() {
      const { images } = await client.call(Images.list, {}, "Cannot list images");
      return images.map(({ name }) => name).sort();
    },
    has: async (text: string) => await content.info(digest(text)) !== undefined,
    /** Has containerd remove whatever nobody needs. */
    async collect() {
      garbage.collect();
      await garbage.settled();
    },
    async [Symbol.asyncDispose]() {
      await first[Symbol.asyncDispose]();
      await client[Symbol.asyncDispose]();
    },
  };
}

type Fixture = Awaited<ReturnType<typeof fixture>>;

function registryTest(title: string, work: (at: Fixture) => Promise<void>): void {
  for (const version of VERSIONS) {
    const { name, ignore } = version;
    Deno.test({ name: `${name}'s registry: ${title}`, ignore }, async () => {
      peer = version.peer!;
      await using at = await fixture();
      await work(at);
    });
  }
}

const push = async (at: Server, repository: string, tag: string, seed: string) => {
  const text = await at.image(repository, seed);
  const answer = await at.pushManifest(repository, tag, text);
  assert.equal(answer.status, 201, await answer.text());
  return text;
};

const status = async (at: Server, method: string, path: string) => {
  const answer = await at.send(method, path);
  await answer.body?.cancel();
  return answer.status;
};

async function assertBlob(at: Server, repository: string, text: string) {
  const path = `/v2/${repository}/blobs/${digest(text)}`;
  assert.equal(await (await at.send("GET", path)).text(), text);
}

for (const version of VERSIONS) {
  if (version.ignore) continue;
  registryReaderContract({
    name: `reader: ${version.name}`,
    async open() {
      peer = version.peer!;
      const at = await fixture();
      for (const text of CONTENT.blobs) await at.pushBlob("app", text);
      for (const { repository, tags, text } of CONTENT.manifests) {
        await at.writer.publish(repository, undefined, bytesOf(text), { tags });
      }
      return { reader: at.view, [Symbol.asyncDispose]: () => at[Symbol.asyncDispose]() };
    },
  });
}

registryTest("a push becomes an image, which the collector leaves alone", async (at) => {
  const text = await at.image("app", "one");
  await at.collect();
  assert.ok(await at.has("layer one"), "a push counts on it");
  assert.equal((await at.pushManifest("app", "v1", text, "?tag=v2")).status, 201);
  assert.deepEqual(await at.names(), [`${HOST}/app:v1`, `${HOST}/app:v2`]);
  await at.collect();
  for (const reference of ["v1", "v2", digest(text)]) {
    const answer = await at.send("GET", `/v2/app/manifests/${reference}`);
    assert.equal(await answer.text(), text);
    assert.equal(answer.headers.get("docker-content-digest"), digest(text));
  }
  await assertBlob(at, "app", "layer one");
  assert.deepEqual(await pages(at, "/v2/_catalog", "repositories"), [["app"]]);
  assert.deepEqual(await pages(at, "/v2/library/app/tags/list?n=1", "tags"), [["v1"], ["v2"]]);
  assert.equal(await status(at, "GET", `/v2/other/manifests/${digest(text)}`), 404);
});

registryTest("chunks, resumed by another server and after containerd was killed", async (at) => {
  const started = await at.send("POST", "/v2/app/blobs/uploads/");
  const location = started.headers.get("location")!;
  const patch = (to: Server, range: string, body: string) =>
    to.send("PATCH", location, { body, headers: { "content-range": range } });
  assert.equal((await patch(at, "0-5", "hello ")).headers.get("range"), "0-5");
  assert.equal(await failure(await patch(at, "9-10", "??")), "416 BLOB_UPLOAD_INVALID");
  // Other repositories and made-up ids do not reach it.
  for (
    const other of [location.replace("/app/", "/other/"), `${location}x`, location.slice(0, -3)]
  ) {
    assert.equal(await failure(await at.send("GET", other)), "404 BLOB_UPLOAD_UNKNOWN", other);
  }
  for (const id of ["..%2F..%2Fx", "svc-me-sha256:0", "%00", "a".repeat(300)]) {
    assert.equal(await status(at, "PATCH", `/v2/app/blobs/uploads/${id}`), 404, id);
  }
  await peer.kill9();
  assert.ok((await patch(at, "6-10", "world")).status >= 500);
  await peer.start();
  assert.equal((await at.send("GET", location)).headers.get("range"), "0-5");
  assert.equal((await patch(at, "6-10", "world")).headers.get("range"), "0-10");
  await at[Symbol.asyncDispose]();
  await using client = new ContainerdClient(at.client);
  await using next = server(client);
  assert.equal((await next.send("GET", location)).headers.get("range"), "0-10");
  const done = await next.send("PUT", `${location}?digest=${digest("hello world!")}`, {
    body: "!",
  });
  assert.equal(done.status, 201, await done.text());
  await assertBlob(next, "app", "hello world!");
});

registryTest("what has another digest is refused, also where the digest exists", async (at) => {
  await at.pushBlob("app", "here");
  for (const named of [digest("here"), digest("nowhere")]) {
    const path = `/v2/app/blobs/uploads/?digest=${named}`;
    const answer = await at.send("POST", path, { body: "else" });
    assert.equal(await failure(answer), "400 DIGEST_INVALID");
  }
  const sha512 = digestOf(bytesOf("x"), "sha512");
  const long = await at.send("POST", `/v2/app/blobs/uploads/?digest=${sha512}`, { body: "x" });
  assert.equal(await failure(long), "400 DIGEST_INVALID");
  assert.equal(await status(at, "HEAD", `/v2/app/blobs/${sha512}`), 404);
  const { statuses } = await at.client.call(Content.statuses, {}, "Cannot list writes");
  assert.deepEqual(statuses, [], "a refused upload is left");
});

registryTest("empty blobs, mounts, and two pushers of one blob", async (at) => {
  await at.pushBlob("app", "");
  await assertBlob(at, "app", "");
  const text = "x".repeat(3_000_000);
  await Promise.all([at.pushBlob("app", text), at.pushBlob("app", text), at.pushBlob("b", text)]);
  await assertBlob(at, "app", text);
  const mount = (what: string) => `/v2/c/blobs/uploads/?mount=${digest(what)}&from=app`;
  assert.equal(await status(at, "POST", mount(text)), 201);
  assert.equal(await status(at, "POST", mount("none")), 202);
  const range = await at.send("GET", `/v2/c/blobs/${digest(text)}`, {
    headers: { range: "bytes=5-7" },
  });
  assert.equal(`${range.status} ${await range.text()}`, "206 xxx");
});

registryTest("manifests: their parts, sizes and names are checked", async (at) => {
  const layer = { mediaType: MEDIA.layerGzip, digest: digest("absent"), size: 6 };
  const config = { ...await at.pushBlob("app", "{}"), mediaType: MEDIA.config };
  const document = { schemaVersion: 2, mediaType: MEDIA.manifest, config, layers: [layer] };
  const put = async (text: unknown, name = "app") =>
    await failure(await at.pushManifest(name, "v1", JSON.stringify(text)));
  assert.equal(await put(document), "404 MANIFEST_BLOB_UNKNOWN");
  assert.equal(await put({ ...document, layers: [{ ...config, size: 9 }] }), "400 SIZE_INVALID");
  assert.equal(await put({ ...document, layers: [{ digest: "../x" }] }), "400 MANIFEST_INVALID");
  assert.equal(await put({ ...document, x: "x".repeat(4 << 20) }), "413 MANIFEST_INVALID");
  const good = { ...document, layers: [] };
  assert.equal(await put(good, "a".repeat(250)), "400 NAME_INVALID");
  // Names of other registries stay theirs: a deployment of one must not get what is pushed here.
  for (const name of ["docker.io/library/app", "ghcr.io/org/app", "localhost/app"]) {
    assert.equal(await put(good, name), "403 DENIED", name);
    assert.equal(await status(at, "POST", `/v2/${name}/blobs/uploads/`), 403);
  }
  assert.deepEqual(await at.names(), []);
  // A config is no manifest.
  assert.equal(await status(at, "GET", `/v2/app/manifests/${config.digest}`), 404);
});

registryTest("a tag that moves lets go of the image before", async (at) => {
  await push(at, "app", "v1", "old");
  await push(at, "app", "v1", "new");
  await at[Symbol.asyncDispose]();
  await at.collect();
  assert.equal(await at.has("layer old"), false);
  assert.equal(await at.has("layer new"), true);
});

registryTest("deletes: names go at once, blobs when nobody needs them", async (at) => {
  const text = await push(at, "app", "v1", "one");
  await push(at, "app", "v2", "one");
  const layer = `/v2/app/blobs/${digest("layer one")}`;
  assert.equal(await failure(await at.send("DELETE", layer)), "405 DENIED");
  assert.equal(await status(at, "DELETE", "/v2/app/manifests/v1"), 202);
  assert.equal(await status(at, "DELETE", "/v2/app/manifests/v1"), 404);
  assert.equal(await status(at, "GET", `/v2/app/manifests/${digest(text)}`), 200);
  assert.equal(await status(at, "DELETE", `/v2/app/manifests/${digest(text)}`), 202);
  assert.equal(await status(at, "GET", "/v2/app/manifests/v2"), 404);
  assert.deepEqual(await at.names(), []);
  await at.pushBlob("app", "loose");
  // More pushes may count on it: they are told when they name it.
  assert.equal(await status(at, "HEAD", `/v2/app/blobs/${digest("loose")}`), 200);
  await using again = server(at.client);
  assert.equal(await status(again, "DELETE", `/v2/app/blobs/${digest("loose")}`), 202);
  assert.equal(await status(at, "DELETE", `/v2/app/blobs/${digest("loose")}`), 404);
  assert.equal(await at.has("layer one"), false);
  // Somebody else's lease.
  await at.pushBlob("app", "kept");
  await at.client.call(Leases.create, { id: "theirs" }, "Cannot make a lease");
  await at.content.hold(digest("kept"), { lease: "theirs" });
  const kept = await at.send("DELETE", `/v2/app/blobs/${digest("kept")}`);
  assert.equal(await failure(kept), "405 DENIED");
});

registryTest("an index keeps its parts, which lose their own names to it", async (at) => {
  const parts = [await at.image("app", "amd"), await at.image("app", "arm")];
  for (const part of parts) {
    assert.equal((await at.pushManifest("app", digest(part), part)).status, 201);
  }
  assert.equal((await at.names()).length, 2);
  const index = JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: parts.map((part) => ({
      mediaType: MEDIA.manifest,
      digest: digest(part),
      size: part.length,
    })),
  });
  const put = await at.send("PUT", "/v2/app/manifests/v1", {
    body: index,
    headers: { "content-type": MEDIA.index },
  });
  assert.equal(put.status, 201, await put.text());
  assert.deepEqual(await at.names(), [`${HOST}/app:v1`]);
  await at[Symbol.asyncDispose]();
  await at.collect();
  await assertBlob(at, "app", "layer arm");
  const part = `/v2/app/manifests/${digest(parts[1])}`;
  assert.equal(await (await at.send("GET", part)).text(), parts[1]);
  assert.equal(await failure(await at.send("DELETE", part)), "405 DENIED");
});

const indexOf = (parts: readonly { digest: string; size: number }[], mediaType: string) =>
  JSON.stringify({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: parts.map(({ digest, size }) => ({ mediaType, digest, size })),
  });

registryTest("indexes that would make every look long are refused", async (at) => {
  const put = async (text: string) => {
    const headers = { "content-type": MEDIA.index };
    const path = `/v2/app/manifests/${digest(text)}`;
    return await at.send("PUT", path, { body: text, headers });
  };
  const wide = Array.from({ length: 1001 }, (_, i) => ({ digest: digest(`${i}`), size: 1 }));
  const answer = await put(indexOf(wide, MEDIA.manifest));
  assert.equal(answer.status, 400);
  assert.match((await answer.json()).errors[0].message, /names 1001 manifests, the limit is 1000/);
  const image = await push(at, "app", "v1", "one");
  let mediaType: string = MEDIA.manifest;
  let text = image;
  for (let depth = 1; depth <= 8; depth++) {
    text = indexOf([{ digest: digest(text), size: text.length }], mediaType);
    mediaType = MEDIA.index;
    const stored = await put(text);
    assert.equal(stored.status, 201, await stored.text());
  }
  const below = `/v2/app/manifests/${digest(image)}`;
  assert.equal(await status(at, "DELETE", "/v2/app/manifests/v1"), 202);
  assert.equal(await status(at, "GET", below), 200);
  const deep = await put(indexOf([{ digest: digest(text), size: text.length }], MEDIA.index));
  assert.equal(await failure(deep), "400 MANIFEST_INVALID");
  // What other programs made is looked through to the same depth.
  await using sink = await new ContainerdImages({
    ...at,
    owner: "theirs",
    garbage: new GarbageCollection(at.client, silent),
  }).open();
  for (let depth = 9; depth <= 30; depth++) {
    text = indexOf([{ digest: digest(text), size: text.length }], MEDIA.index);
    await sink.putManifest("", MEDIA.index, bytesOf(text), []);
  }
  const target = { mediaType: MEDIA.index, digest: digest(text), size: text.length };
  const name = "ghcr.io/org/deep:1";
  await at.client.call(Images.create, { image: { name, labels: {}, target } }, "Cannot name");
  assert.equal(await status(at, "GET", `/v2/ghcr.io/org/deep/manifests/${digest(image)}`), 404);
  assert.equal(await status(at, "GET", `/v2/ghcr.io/org/deep/manifests/1`), 200);
});

registryTest("no repository's names are in the way of another's", async (at) => {
  const asked: string[][] = [];
  const call = at.client.call.bind(at.client);
  at.client.call = (method, input, ...rest) => {
    if (method.path === Images.list.path) asked.push((input as { filters: string[] }).filters);
    return call(method, input, ...rest);
  };
  await using few = server(at.client, "me", HOST, 3);
  const text = await push(few, "app", "v1", "one");
  await push(few, "app", "v2", "one");
  for (const reference of ["v1", digest(text), "none", digest("none")]) {
    await status(few, "GET", `/v2/app/manifests/${reference}`);
  }
  assert.equal(await few.view.locate("docker.io/library/app", "v1"), undefined);
  const more = await few.pushManifest("app", "v3", text, "?tag=v4");
  assert.equal(more.status, 409);
  assert.match((await more.json()).errors[0].message, /4 tags and digests, the limit is 3/);
  await push(few, "app", "v3", "three");
  await push(few, "app", "v1", "moved");
  await push(few, "other", "v1", "other");
  assert.equal(await status(few, "DELETE", "/v2/app/manifests/v2"), 202);
  assert.equal(await status(few, "DELETE", `/v2/app/blobs/${digest("layer moved")}`), 405);
  assert.equal(await status(few, "GET", "/v2/app/tags/list"), 200);
  assert.ok(asked.length > 0);
  for (const filter of asked.flat()) assert.match(filter, /^name~=".*(app|other)/);
  assert.deepEqual(asked.filter((filters) => filters.length === 0), []);
});

registryTest("content of another namespace is not given for its digest", async (at) => {
  await using client = new ContainerdClient({ ...at.client, namespace: `other-${namespaces++}` });
  await using other = server(client);
  await other.pushBlob("app", "theirs");
  const blob = { digest: digest("theirs"), size: 6 };
  const written = (body: string) =>
    at.content.write(blob, {
      open: () => Promise.resolve(new Blob([body]).stream()),
      ranges: false,
    });
  await assert.rejects(written("guess!"), { code: "digest_invalid" });
  assert.equal(await at.has("theirs"), false);
  await written("theirs");
  assert.equal(await at.has("theirs"), true);
});

registryTest("referrers outlive their tags", async (at) => {
  const subject = await push(at, "app", "v1", "subject");
  const note = await at.image("app", "note", {
    artifactType: "application/x-note",
    annotations: { by: "me" },
    subject: { mediaType: MEDIA.manifest, digest: digest(subject), size: subject.length },
  });
  const answer = await at.pushManifest("app", "note", note);
  assert.equal(answer.headers.get("oci-subject"), digest(subject));
  await push(at, "app", "note", "other");
  await at.collect();
  const path = `/v2/app/referrers/${digest(subject)}`;
  const [[found]] = await pages<Record<string, unknown>>(at, path, "manifests");
  assert.equal(found.digest, digest(note));
  assert.equal(found.artifactType, "application/x-note");
  assert.deepEqual(found.annotations, { by: "me" });
  assert.equal(await status(at, "DELETE", `/v2/app/manifests/${digest(note)}`), 202);
  assert.deepEqual(await pages(at, path, "manifests"), [[]]);
});

registryTest("other programs' images are shown, and neither changed nor removed", async (at) => {
  const theirs = await push(at, "app", "v1", "theirs");
  const name = async (name: string, labels: Record<string, string> = {}, seed = theirs) => {
    const target = { mediaType: MEDIA.manifest, digest: digest(seed), size: seed.length };
    await at.client.call(Images.create, { image: { name, labels, target } }, "Cannot name");
  };
  await name("docker.io/library/nginx:1");
  await name("ghcr.io/org/tool:1");
  await name("registry.corp:5000/x:1");
  await name(digest("a config"));
  const shown = [["app", "ghcr.io/org/tool", "nginx"]];
  assert.deepEqual(await pages(at, "/v2/_catalog", "repositories"), shown);
  const mine = await push(at, "nginx", "1", "mine");
  const got = async (path: string) => await (await at.send("GET", `/v2/${path}`)).text();
  assert.equal(await got("nginx/manifests/1"), mine);
  assert.equal(await got("library/nginx/manifests/1"), mine);
  // Whoever says docker.io means docker.io.
  assert.equal(await got("docker.io/library/nginx/manifests/1"), theirs);
  assert.equal(await at.view.locate("docker.io/library/nginx", "1"), "docker.io/library/nginx:1");
  assert.equal(await status(at, "DELETE", "/v2/nginx/manifests/1"), 202);
  assert.equal(await got("nginx/manifests/1"), theirs);
  for (const path of ["nginx/manifests/1", `ghcr.io/org/tool/manifests/${digest(theirs)}`]) {
    assert.equal(await failure(await at.send("DELETE", `/v2/${path}`)), "405 UNSUPPORTED", path);
  }
  assert.equal((await at.names()).length, 5);
});

registryTest("what a build leaves is not in the registry, and takes no pushed name", async (at) => {
  const pushed = await push(at, "app", "v1", "pushed");
  const garbage = new GarbageCollection(at.client, silent);
  const worker = new ContainerdImages({ ...at, owner: "worker", garbage });
  {
    await using sink = await worker.open();
    const tags = [`${HOST}/app:v1`, `${HOST}/app:v2`, "docker.io/library/nginx:1"];
    await sink.putManifest("", MEDIA.manifest, bytesOf(pushed.replace("{", "{ ")), tags);
  }
  await garbage.settled();
  assert.equal(await (await at.send("GET", "/v2/app/manifests/v1")).text(), pushed);
  assert.deepEqual(await pages(at, "/v2/app/tags/list", "tags"), [["v1"]]);
  assert.deepEqual(await pages(at, "/v2/_catalog", "repositories"), [["app"]]);
  assert.equal(await status(at, "GET", "/v2/app/manifests/v2"), 404);
  assert.equal(await at.view.locate("docker.io/library/nginx", "1"), undefined);
  // Pushed, too, it is.
  const text = await push(at, "app", "v2", "two");
  assert.equal(await (await at.send("GET", "/v2/app/manifests/v2")).text(), text);
});

registryTest("the address in the names may change: what was pushed stays", async (at) => {
  const text = await push(at, "app", "v1", "one");
  await using moved = server(at.client, "me", "localhost:6000");
  assert.equal(await (await moved.send("GET", "/v2/app/manifests/v1")).text(), text);
  const newer = await push(moved, "app", "v1", "newer");
  assert.equal(await (await moved.send("GET", "/v2/app/manifests/v1")).text(), newer);
  // Another server of the namespace shows none of it, and removes none of it.
  await using other = server(at.client, "other", "localhost:7000");
  assert.deepEqual(await pages(other, "/v2/_catalog", "repositories"), [[]]);
  assert.equal(await status(moved, "DELETE", "/v2/app/manifests/v1"), 202);
  assert.equal(await status(moved, "GET", "/v2/app/manifests/v1"), 404);
});

registryTest("a push goes on where somebody removed the lease of the server", async (at) => {
  await at.pushBlob("app", "before");
  const { leases } = await at.client.call(Leases.list, {}, "Cannot list leases");
  for (const { id } of leases) {
    await at.client.call(Leases.delete, { id, sync: true }, "Cannot end");
  }
  await push(at, "app", "v1", "after");
  await at.collect();
  await assertBlob(at, "app", "layer after");
});

registryTest("a containerd that is away is told, and comes back by itself", async (at) => {
  await push(at, "app", "v1", "one");
  await peer.stop();
  for (const path of ["/v2/", "/v2/_catalog", "/v2/app/manifests/v1"]) {
    const answer = await at.send("GET", path);
    assert.equal(answer.status, 503, path);
    assert.match((await answer.json()).errors[0].message, /containerd at .*containerd.sock/);
  }
  await peer.start();
  assert.equal(await status(at, "GET", "/v2/app/manifests/v1"), 200);
});

registryTest("a full disk ends the upload, and the rest goes on", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-ctd-full-" });
  const run = async (...args: string[]) => {
    const { code, stderr } = await new Deno.Command(args[0], { args: args.slice(1) }).output();
    assert.equal(code, 0, new TextDecoder().decode(stderr));
  };
  await run("mount", "-t", "tmpfs", "-o", "size=24m", "none", folder);
  try {
    const unstable = VERSIONS.some((version) => version.unstable && version.peer === peer);
    await using full = await startContainerd(folder, { unstable });
    await using client = new ContainerdClient({ address: full.address, namespace: "svc" });
    await using at = server(client);
    const big = new Uint8Array(30 << 20).fill(7);
    const path = `/v2/app/blobs/uploads/?digest=${digestOf(big)}`;
    const answer = await at.send("POST", path, { body: big });
    assert.equal(answer.status, 507);
    const [{ message }] = (await answer.json()).errors;
    assert.match(message, /no space left on device.*free space on containerd's volume/);
    const text = await push(at, "app", "v1", "small");
    assert.equal(await (await at.send("GET", "/v2/app/manifests/v1")).text(), text);
  } finally {
    await run("umount", "-l", folder);
    await Deno.remove(join(folder));
  }
});
