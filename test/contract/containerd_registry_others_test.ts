/** The registry view of a real containerd beside others: repositories, namespaces, programs, faults. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { silent } from "../../lib/base/log.ts";
import { Leases } from "../../lib/containerd/api.ts";
import { ContainerdClient } from "../../lib/containerd/client.ts";
import { GarbageCollection } from "../../lib/containerd/garbage.ts";
import { Images } from "../../lib/containerd/image_api.ts";
import { ContainerdImages } from "../../lib/containerd/images.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { MEDIA } from "../../lib/oci/types.ts";
import { bytesOf, digest, failure, pages } from "../../lib/registry/fixture_test.ts";
import { startContainerd } from "../peers/containerd.ts";
import {
  assertBlob,
  HOST,
  newNamespace,
  push,
  registryTest,
  server,
  status,
  useContainerds,
} from "./containerd_registry_fixture.ts";

useContainerds();

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
  await using client = new ContainerdClient({ ...at.client, namespace: newNamespace() });
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
  await at.peer.stop();
  for (const path of ["/v2/", "/v2/_catalog", "/v2/app/manifests/v1"]) {
    const answer = await at.send("GET", path);
    assert.equal(answer.status, 503, path);
    assert.match((await answer.json()).errors[0].message, /containerd at .*containerd.sock/);
  }
  await at.peer.start();
  assert.equal(await status(at, "GET", "/v2/app/manifests/v1"), 200);
});

registryTest("a full disk ends the upload, and the rest goes on", async ({ unstable }) => {
  const folder = await Deno.makeTempDir({ prefix: "svc-ctd-full-" });
  const run = async (...args: string[]) => {
    const { code, stderr } = await new Deno.Command(args[0], { args: args.slice(1) }).output();
    assert.equal(code, 0, new TextDecoder().decode(stderr));
  };
  await run("mount", "-t", "tmpfs", "-o", "size=24m", "none", folder);
  try {
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
