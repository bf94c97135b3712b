import assert from "node:assert/strict";
import { join } from "node:path";
import { svcFake } from "../../test/fixtures/cli.ts";
import {
  type MultiImage,
  putImage,
  putIndexJson,
  tagged,
  writeMultiLayout,
} from "../../test/fixtures/images.ts";
import { type FakeRegistry, stall, startFakeRegistry } from "../../test/peers/fake_registry.ts";
import { interruption } from "../base/terminal.ts";
import { blobPath } from "../oci/layout.ts";
import { MEDIA } from "../oci/types.ts";

interface Fixture {
  folder: string;
  path: (name: string) => string;
  registry: FakeRegistry;
  svc: (args: string[], signal?: AbortSignal) => ReturnType<typeof svcFake>;
}

async function withRegistry(fn: (fixture: Fixture) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-transfer-" });
  const registry = startFakeRegistry();
  try {
    await fn({
      folder,
      path: (name) => join(folder, name),
      registry,
      svc: (args, signal) =>
        svcFake(args, {
          env: { SVC_SERVER: `http://${registry.host}`, HOME: folder },
          ...(signal && { signal }),
        }),
    });
  } finally {
    await registry[Symbol.asyncDispose]();
    await Deno.remove(folder, { recursive: true });
  }
}

const tagOf = (registry: FakeRegistry, name: string) => registry.manifests.get(name);
const requests = (registry: FakeRegistry, start: string) =>
  registry.seen.filter(({ line }) => line.startsWith(start)).length;

async function multi({ path, svc }: Fixture): Promise<MultiImage> {
  const image = await writeMultiLayout(path("in"), "v1");
  const pushed = await svc(["push", `oci:${path("in")}:v1`, "app:v1"]);
  assert.equal(pushed.code, 0, pushed.stderr);
  return image;
}

Deno.test("push: a multi-platform image goes whole, under its digest; again, nothing moves", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    const image = await multi(fixture);
    assert.equal(tagOf(registry, "app/v1")?.type, MEDIA.index);
    assert.ok(tagOf(registry, `app/${image.arm64.manifest.digest}`));
    assert.ok(registry.blobs.has(image.arm64.layers[0].digest));
    assert.equal(registry.blobs.has(image.signatureBlob.digest), false);
    const uploads = requests(registry, "PUT /v2/app/blobs");
    assert.equal(uploads, 5); // two configs, two layers, and the one they share
    const again = await svc(["push", `oci:${path("in")}`, "app"]);
    assert.equal(again.stdout, `${registry.host}/app:latest@${image.index.digest}\n`);
    assert.match(again.stderr, /2 images, 5 blobs/);
    assert.match(again.stderr, /is there already/);
    assert.equal(requests(registry, "PUT /v2/app/blobs"), uploads);
  });
});

Deno.test("push: --platform takes one of several; one that is not there is told", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    const image = await writeMultiLayout(path("in"), "v1");
    const one = await svc(["push", `oci:${path("in")}`, "app:arm", "--platform", "linux/arm64"]);
    assert.equal(one.stdout, `${registry.host}/app:arm@${image.arm64.manifest.digest}\n`);
    assert.equal(registry.blobs.has(image.amd64.config.digest), false);
    const none = await svc(["push", `oci:${path("in")}`, "app:x", "--platform", "linux/s390x"]);
    assert.equal(none.code, 1);
    assert.match(none.stderr, /no image for linux\/s390x; it has linux\/amd64, linux\/arm64/);
    const other = await svc(["pull", "app:arm", "-o", path("x.tar"), "--platform", "linux/amd64"]);
    assert.match(other.stderr, /it is for linux\/arm64 alone, not linux\/amd64/);
  });
});

Deno.test("push: referrers come along when asked, listed by tag where the registry lists none", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    const image = await multi(fixture);
    assert.equal((await svc(["push", `oci:${path("in")}`, "app:v1", "--referrers"])).code, 0);
    assert.ok(registry.blobs.has(image.signatureBlob.digest));
    const listing = tagOf(registry, `app/${image.index.digest.replace(":", "-")}`);
    const { manifests } = JSON.parse(new TextDecoder().decode(listing!.bytes));
    assert.deepEqual(manifests.map((m: { digest: string }) => m.digest), [image.signature.digest]);
    const out = await svc(["pull", "app:v1", `oci:${path("out")}`, "--referrers"]);
    assert.equal(out.code, 0, out.stderr);
    const index = JSON.parse(await Deno.readTextFile(path("out/index.json")));
    assert.deepEqual(index.manifests.map((m: { digest: string }) => m.digest), [
      image.index.digest,
      image.signature.digest,
    ]);
    const refused = await svc(["pull", "app:v1", "-o", path("x.tar"), "--referrers"]);
    assert.equal(refused.code, 2);
  });
});

Deno.test("pull: into a layout, an OCI archive and a docker archive, and back with the same digest", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    const image = await multi(fixture);
    for (
      const [place, digest] of [
        [`oci:${path("out")}`, image.index.digest],
        [`oci-archive:${path("oci.tar")}`, image.index.digest],
        [`docker-archive:${path("docker.tar")}`, undefined],
      ]
    ) {
      const args = digest ? [] : ["--platform", "linux/amd64"];
      const pulled = await svc(["pull", "app:v1", place!, ...args]);
      assert.equal(pulled.code, 0, pulled.stderr);
      const name = place!.startsWith("docker") ? "app:v1" : "v1";
      const expected = digest ?? image.amd64.manifest.digest;
      assert.equal(pulled.stdout, `${place}:${name}@${expected}\n`);
      registry.blobs.clear();
      const back = await svc(["push", place!, "back:v2"]);
      assert.equal(back.stdout, `${registry.host}/back:v2@${expected}\n`, back.stderr);
      assert.ok(registry.blobs.has(image.amd64.layers[0].digest));
      await svc(["push", `oci:${path("in")}`, "app:v1"]);
    }
    // Nothing of the work in between stays.
    const names = (await Array.fromAsync(Deno.readDir(fixture.folder))).map((e) => e.name).sort();
    assert.deepEqual(names, ["docker.tar", "in", "oci.tar", "out"]);
    const inside = (await Array.fromAsync(Deno.readDir(path("out")))).map((e) => e.name).sort();
    assert.deepEqual(inside, ["blobs", "index.json", "oci-layout"]);
    // The same image gives the same archive.
    const before = await Deno.readFile(path("oci.tar"));
    await svc(["pull", "app:v1", `oci-archive:${path("again.tar")}`]);
    assert.deepEqual(await Deno.readFile(path("again.tar")), before);
  });
});

Deno.test("pull: images of a layout stay beside a new one; a name moves to what it is given", async () => {
  await withRegistry(async (fixture) => {
    const { svc, path } = fixture;
    const image = await multi(fixture);
    await svc(["pull", "app:v1", `oci:${path("out")}:a`]);
    await svc(["pull", "app:v1", `oci:${path("out")}:b`, "--platform", "linux/amd64"]);
    await svc(["pull", "app:v1", `oci:${path("out")}:a`, "--platform", "linux/arm64"]);
    const { manifests } = JSON.parse(await Deno.readTextFile(path("out/index.json")));
    assert.deepEqual(
      manifests.map((m: { digest: string; annotations: Record<string, string> }) => [
        Object.values(m.annotations)[0],
        m.digest,
      ]),
      [["b", image.amd64.manifest.digest], ["a", image.arm64.manifest.digest]],
    );
    const several = await svc(["push", `oci:${path("out")}`, "x:1"]);
    assert.match(several.stderr, /it holds 2 images: b, a/);
    const missing = await svc(["push", `oci:${path("out")}:c`, "x:1"]);
    assert.match(missing.stderr, /there is no image c in it; it has b, a/);
  });
});

/** A large layer, so that a transfer can be stopped in its middle. */
async function large({ path, svc }: Fixture) {
  const data = new Uint8Array(6 * 1024 * 1024);
  for (let at = 0; at < data.length; at += 65536) {
    crypto.getRandomValues(data.subarray(at, at + 65536));
  }
  const image = await putImage(path("in"), [{ data }, { small: "x" }], "amd64", false);
  await putIndexJson(path("in"), [tagged(image.manifest, "v1")]);
  assert.equal((await svc(["push", `oci:${path("in")}`, "app:v1"])).code, 0);
  return { image, layer: image.layers[0] };
}

/** Waits until there is a file with at least `size` bytes in it: an archive's may have a hole. */
async function grown(path: string, size: number): Promise<void> {
  const written = async () => (await Deno.stat(path).catch(() => undefined))?.blocks ?? 0;
  while (await written() * 512 < size) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

for (const kind of ["oci", "oci-archive", "docker-archive"]) {
  Deno.test(`pull: ${kind} interrupted ends with 130, shows nothing, and goes on by range`, async () => {
    await withRegistry(async (fixture) => {
      const { registry, svc, path } = fixture;
      const { image, layer } = await large(fixture);
      const abort = new AbortController();
      stall(registry, layer.size, 3 * 1024 * 1024);
      const kept = kind === "oci"
        ? path(`out/.partial/${layer.digest.replace(":", "-")}`)
        : path("out.partial");
      grown(kept, 2_500_000).then(() => abort.abort(interruption("SIGINT")));
      const place = `${kind}:${path("out")}`;
      const stopped = await svc(["pull", "app:v1", place], abort.signal);
      assert.equal(stopped.code, 130, stopped.stderr);
      assert.match(stopped.stderr, /is kept in .*partial; the same command goes on/);
      const shown = kind === "oci" ? path("out/index.json") : path("out");
      await assert.rejects(Deno.stat(shown), Deno.errors.NotFound);

      registry.serveBlob = undefined;
      registry.seen.length = 0;
      const resumed = await svc(["pull", "app:v1", place]);
      assert.equal(resumed.code, 0, resumed.stderr);
      const [range] = registry.seen.flatMap((s) => s.headers.get("range") ?? []);
      assert.match(range, /^bytes=(2|3)\d{6}-/);
      registry.blobs.clear();
      const back = await svc(["push", place, "back:v1"]);
      assert.match(back.stdout, new RegExp(`@${image.manifest.digest}\n$`), back.stderr);
    });
  });
}

Deno.test("pull: what an earlier attempt left damaged is fetched anew", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    const { layer } = await large(fixture);
    const partial = path(`out/.partial/${layer.digest.replace(":", "-")}`);
    await Deno.mkdir(path("out/.partial"), { recursive: true });
    await Deno.writeFile(partial, new Uint8Array(1024 * 1024));
    const pulled = await svc(["pull", "app:v1", `oci:${path("out")}`]);
    assert.equal(pulled.code, 0, pulled.stderr);
    const ranges = registry.seen.filter((s) => s.headers.has("range"));
    assert.equal(ranges.length, 1);
    assert.deepEqual(
      await Deno.readFile(path(`out/${blobPath(layer.digest)}`)),
      registry.blobs.get(layer.digest),
    );
  });
});

Deno.test("push: an upload that the registry forgot is begun anew", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    const image = await putImage(path("in"), [{ data: new Uint8Array(9 << 20) }], "amd64", false);
    await putIndexJson(path("in"), [tagged(image.manifest, "v1")]);
    let patches = 0;
    registry.intercept = (request) => {
      if (request.method !== "PATCH" || ++patches > 1) return;
      registry.uploads.clear();
      return undefined;
    };
    const pushed = await svc(["push", `oci:${path("in")}`, "app:v1"]);
    assert.equal(pushed.code, 0, pushed.stderr);
    assert.ok(patches > 1);
    assert.ok(registry.blobs.has(image.layers[0].digest));
  });
});

Deno.test("push: a blob that is not what its digest says stops it, and no name is set", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    const image = await writeMultiLayout(path("in"), "v1");
    const layer = path(`in/${blobPath(image.arm64.layers[0].digest)}`);
    const bytes = await Deno.readFile(layer);
    bytes[20] ^= 1;
    await Deno.writeFile(layer, bytes);
    const pushed = await svc(["push", `oci:${path("in")}`, "app:v1"]);
    assert.equal(pushed.code, 1);
    assert.match(pushed.stderr, /the bytes have the digest/);
    assert.equal(registry.manifests.size, 0);
    const archived = await svc(["push", `oci:${path("in")}`, `oci-archive:${path("x.tar")}`]);
    assert.equal(archived.code, 1);
    await assert.rejects(Deno.stat(path("x.tar")), Deno.errors.NotFound);
    await Deno.remove(layer);
    const missing = await svc(["push", `oci:${path("in")}`, "app:v1"]);
    assert.match(missing.stderr, /its blob sha256:[0-9a-f]{64} is missing/);
  });
});

Deno.test("push: within one registry blobs are mounted", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc } = fixture;
    await multi(fixture);
    // A registry that knows blobs per repository, as others do.
    registry.intercept = (request, url) =>
      request.method === "HEAD" && url.pathname.startsWith("/v2/other/blobs/")
        ? new Response(null, { status: 404 })
        : undefined;
    registry.seen.length = 0;
    const pushed = await svc(["push", "app:v1", `${registry.host}/other:v1`]);
    assert.match(pushed.stderr, /mounted/);
    assert.equal(requests(registry, "POST /v2/other/blobs/uploads/?mount=sha256"), 5);
    assert.equal(requests(registry, "GET /v2/app/blobs"), 0);
  });
});

Deno.test("push and pull: names that are wrong are told with what there is", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    const image = await multi(fixture);
    registry.intercept = (_request, url) =>
      url.pathname === "/v2/app/tags/list" ? Response.json({ tags: ["v1", "v10"] }) : undefined;
    const missing = await svc(["pull", "app:v2", `oci:${path("x")}`]);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /there is no tag v2; it has v1, v10/);
    const absent = await svc(["pull", "nope:v1", `oci:${path("x")}`]);
    assert.match(absent.stderr, /nope:v1: there is no such image/);
    const here = await svc(["pull", "app:v1"]);
    assert.equal(here.code, 2);
    assert.match(here.stderr, /in the server's registry already/);
    const wrong = await svc(["push", "app:v1", `b@sha256:${"0".repeat(64)}`]);
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, new RegExp(`has the digest ${image.index.digest}`));
    assert.equal((await svc(["push", "app:v1"])).code, 2);
    assert.equal((await svc(["pull", "app:v1", "oci:x", "-o", "y.tar"])).code, 2);
    assert.equal((await svc(["pull", "app:v1", "oci:x", "--jobs", "0"])).code, 2);
    await Deno.mkdir(path("full"));
    await Deno.writeTextFile(path("full/file"), "");
    const full = await svc(["pull", "app:v1", `oci:${path("full")}`]);
    assert.match(full.stderr, /is not an OCI layout \(it holds file\)/);
    const under = await svc(["pull", "app:v1", `oci:${path("full/file/x")}`]);
    assert.match(under.stderr, /a part of the path is not a folder/);
    const nowhere = await svc(["pull", "app:v1", `oci-archive:${path("no/such/x.tar")}`]);
    assert.match(nowhere.stderr, /there is no such folder/);
  });
});

Deno.test("push: a registry that asks for a login is told apart; the server gets its token", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    await writeMultiLayout(path("in"), "v1");
    const wanted = `Basic ${btoa("svc:secret")}`;
    registry.intercept = (request) =>
      request.headers.get("authorization") === wanted ? undefined : new Response(null, {
        status: 401,
        headers: { "www-authenticate": 'Basic realm="svc"' },
      });
    const refused = await svc(["push", `oci:${path("in")}`, "app:v1"]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /it asks for a login/);
    const allowed = await svcFake(["push", `oci:${path("in")}`, "app:v1"], {
      env: { SVC_SERVER: `http://${registry.host}`, SVC_TOKEN: "secret", HOME: fixture.folder },
    });
    assert.equal(allowed.code, 0, allowed.stderr);
  });
});

Deno.test("pull: without a destination the image goes to the server under its name", async () => {
  await withRegistry(async (fixture) => {
    await using other = startFakeRegistry();
    const { registry, svc, path } = fixture;
    const image = await writeMultiLayout(path("in"), "v1");
    await svc(["push", `oci:${path("in")}`, `${other.host}/team/app:v3`]);
    const pulled = await svc(["pull", `${other.host}/team/app:v3`]);
    assert.equal(pulled.stdout, `${registry.host}/team/app:v3@${image.index.digest}\n`);
    assert.ok(tagOf(registry, "team/app/v3"));
    await svc(["pull", "team/app:v3", "-o", path("a.tar"), "-q", "--platform", "linux/amd64"]);
    registry.manifests.clear();
    const loaded = await svc(["pull", path("a.tar")]);
    assert.equal(
      loaded.stdout,
      `${registry.host}/team/app:v3@${image.amd64.manifest.digest}\n`,
    );
    const nameless = await svc(["pull", `oci:${path("in")}`]);
    assert.match(nameless.stderr, /it has no name to go by/);
  });
});

Deno.test("push: NDJSON tells the plan, each blob, and how it ended; -q the digest alone", async () => {
  await withRegistry(async (fixture) => {
    const { registry, svc, path } = fixture;
    const image = await writeMultiLayout(path("in"), "v1");
    const told = await svc(["push", `oci:${path("in")}`, "app:v1", "--output", "json"]);
    const events = told.stdout.trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(told.stderr, "");
    assert.equal(events[0].type, "plan");
    assert.equal(events[0].blobs, 5);
    assert.equal(events.filter((e) => e.type === "done" && e.outcome === "copied").length, 5);
    const { name, digest, type } = events.at(-1);
    assert.deepEqual([type, name, digest], [
      "result",
      `${registry.host}/app:v1`,
      image.index.digest,
    ]);
    const failed = await svc(["push", `oci:${path("in")}:no`, "app:v1", "--output", "json"]);
    const last = JSON.parse(failed.stdout.trim().split("\n").at(-1)!);
    assert.deepEqual([last.type, last.error.code], ["error", "manifest_unknown"]);
    const quiet = await svc(["push", `oci:${path("in")}`, "app:v1", "-q"]);
    assert.deepEqual([quiet.stdout, quiet.stderr], [`${image.index.digest}\n`, ""]);
  });
});
