import assert from "node:assert/strict";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { putImage, putIndexJson, tagged, writeMultiLayout } from "../../test/fixtures/images.ts";
import { SvcError } from "../base/errors.ts";
import { openArchive } from "./archive.ts";
import { openDockerArchive } from "./archive_docker.ts";
import { digestOf } from "./digest.ts";
import { blobPath, openLayout } from "./layout.ts";
import { directoryFiles } from "./layout_files.ts";
import { parseManifest } from "./manifest.ts";
import type { TarFields } from "./tar_write.ts";
import { writeTar } from "./tar_write.ts";
import { MEDIA } from "./types.ts";

type Entry = TarFields & { body?: Uint8Array };

async function withFolder(fn: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-archive-test-" });
  try {
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const file = (path: string, body: Uint8Array | string): Entry => ({
  path,
  type: "file",
  body: typeof body === "string" ? new TextEncoder().encode(body) : body,
});

async function archive(path: string, entries: Entry[], gzip = false): Promise<string> {
  const bytes = new Uint8Array(await new Response(writeTar(entries) as BodyInit).arrayBuffer());
  await Deno.writeFile(path, gzip ? gzipSync(bytes) : bytes);
  return path;
}

const code = (wanted: string, why: RegExp) => (error: unknown) =>
  error instanceof SvcError && error.code === wanted && why.test(error.message);

const bytesOf = async (stream: ReadableStream<Uint8Array>) =>
  new Uint8Array(await new Response(stream as BodyInit).arrayBuffer());

Deno.test("archive: files at their place, through links, compressed or not", async () => {
  await withFolder(async (folder) => {
    const entries: Entry[] = [
      { path: "dir", type: "directory" },
      file("dir/" + "long".repeat(60), "far"),
      file("./dir/one", "first"),
      { path: "dir/link", type: "symlink", linkpath: "../dir/one" },
      { path: "hard", type: "hardlink", linkpath: "dir/link" },
      { path: "round", type: "symlink", linkpath: "round" },
      file("empty", ""),
      file("last", "x".repeat(1000)),
    ];
    for (const gzip of [false, true]) {
      const path = await archive(join(folder, `a${gzip}`), entries, gzip);
      await using files = await openArchive(path);
      assert.equal(await files.size("dir/" + "long".repeat(60)), 3);
      assert.equal(await files.size("empty"), 0);
      assert.equal(await files.size("dir"), undefined);
      assert.equal(await files.size("round"), undefined);
      for (const name of ["dir/one", "dir/link", "hard"]) {
        const text = new TextDecoder().decode(await bytesOf(files.open(name, 1, 4)));
        assert.equal(text, "irs", name);
      }
      assert.equal((await bytesOf(files.open("last", 0, 1000))).length, 1000);
    }
  });
});

Deno.test("archive: what is missing, cut short or no archive is told", async () => {
  await withFolder(async (folder) => {
    await assert.rejects(openArchive(join(folder, "none")), code("not_found", /no such file/));
    await assert.rejects(openArchive(folder), code("archive_invalid", /it is a folder/));
    const path = await archive(join(folder, "a"), [file("x", "y".repeat(5000))]);
    await Deno.truncate(path, 2000);
    await assert.rejects(openArchive(path), code("archive_invalid", /middle of an entry/));
    await Deno.writeTextFile(path, "no tar archive".repeat(100));
    await assert.rejects(openArchive(path), code("archive_invalid", /Cannot read archive/));
    await Deno.writeFile(path, gzipSync(new Uint8Array(5000)).subarray(0, 20));
    await assert.rejects(openArchive(path), code("archive_invalid", /gzip/));
  });
});

Deno.test("layout: images by tag and digest, tags, referrers", async () => {
  await withFolder(async (folder) => {
    const made = await writeMultiLayout(folder, "v1");
    const layout = await openLayout(directoryFiles(folder));
    assert.deepEqual(layout.images, [{ name: "v1", digest: made.index.digest }]);
    assert.equal((await layout.resolve("", "v1"))?.descriptor.digest, made.index.digest);
    const child = await layout.resolve("", made.arm64.manifest.digest);
    assert.equal(child?.descriptor.mediaType, MEDIA.manifest);
    assert.equal(await layout.resolve("", "v2"), undefined);
    assert.deepEqual(await Array.fromAsync(layout.tags("")), ["v1"]);
    const [referrer, ...others] = await Array.fromAsync(layout.referrers("", made.index.digest));
    assert.deepEqual(others, []);
    assert.equal(referrer.digest, made.signature.digest);
    assert.equal(referrer.artifactType, "application/x-signature");
    const body = await layout.get("", made.amd64.layers[0].digest, { range: { start: 2, end: 4 } });
    assert.equal((await bytesOf(body!.stream())).length, 3);
  });
});

Deno.test("layout: damage is found, what is not a layout is told", async () => {
  await withFolder(async (folder) => {
    const image = await putImage(folder, [{ a: "b" }]);
    await assert.rejects(openLayout(directoryFiles(folder)), code("archive_invalid", /index.json/));
    await putIndexJson(folder, [tagged(image.manifest, "v1")]);
    const layout = await openLayout(directoryFiles(folder));
    const layer = join(folder, blobPath(image.layers[0].digest));
    const bytes = await Deno.readFile(layer);
    bytes[bytes.length - 1] ^= 1;
    await Deno.writeFile(layer, bytes);
    const body = await layout.get("", image.layers[0].digest);
    await assert.rejects(bytesOf(body!.stream()), code("digest_invalid", /have the digest/));
    await Deno.writeTextFile(join(folder, blobPath(image.manifest.digest)), "{}");
    await assert.rejects(layout.resolve("", "v1"), code("digest_invalid", /the manifest/));
    await Deno.writeTextFile(join(folder, "index.json"), '{"manifests":[{"digest":"x"}]}');
    await assert.rejects(
      openLayout(directoryFiles(folder)),
      code("archive_invalid", /manifests\[0\]/),
    );
  });
});

interface Saved {
  config: Uint8Array;
  layers: Uint8Array[];
}

/** What `docker save` writes of one image, before version 25. */
async function saved(folder: string, compressed: boolean): Promise<Saved> {
  const image = await putImage(folder, [{ a: "1" }, { b: "2" }], "amd64", compressed);
  const read = (digest: string) => Deno.readFile(join(folder, blobPath(digest)));
  return {
    config: await read(image.config.digest),
    layers: await Promise.all(image.layers.map((layer) => read(layer.digest))),
  };
}

const manifestJson = (config: string, layers: string[], names: string[] | null) =>
  file("manifest.json", JSON.stringify([{ Config: config, RepoTags: names, Layers: layers }]));

Deno.test("docker archive: a manifest over its layers; the config keeps its bytes", async () => {
  await withFolder(async (folder) => {
    for (const compressed of [false, true]) {
      const { config, layers } = await saved(folder, compressed);
      const name = `${digestOf(config).slice(7)}.json`;
      const path = await archive(join(folder, "a.tar"), [
        file(name, config),
        file("first.tar", layers[0]),
        file("second.tar", layers[1]),
        { path: "x/layer.tar", type: "symlink", linkpath: "../second.tar" },
        manifestJson(name, ["first.tar", "x/layer.tar"], ["app:v1", "host:1/app:v2"]),
      ]);
      await using files = await openArchive(path);
      const images = await openDockerArchive(files);
      const found = await images.resolve("", "docker.io/library/app:v1");
      const parsed = parseManifest(found!.bytes);
      assert.ok(parsed.kind === "image");
      assert.equal(parsed.document.config.digest, digestOf(config));
      assert.deepEqual(
        parsed.document.layers.map((layer) => [layer.mediaType, layer.digest, layer.size]),
        layers.map((layer) => [
          compressed ? MEDIA.layerGzip : MEDIA.layerTar,
          digestOf(layer),
          layer.length,
        ]),
      );
      for (const { digest } of parsed.blobs) {
        assert.equal(digestOf(await bytesOf((await images.get("", digest))!.stream())), digest);
      }
      assert.ok(await images.resolve("", "host:1/app:v2"));
      assert.equal(await images.resolve("", "app:v2"), undefined);
    }
  });
});

Deno.test("docker archive: one that is a layout too keeps its manifest", async () => {
  await withFolder(async (folder) => {
    const image = await putImage(folder, [{ a: "1" }]);
    const blobs = [image.manifest, image.config, ...image.layers];
    const path = await archive(join(folder, "a.tar"), [
      file("oci-layout", '{"imageLayoutVersion":"1.0.0"}'),
      file("index.json", JSON.stringify({ schemaVersion: 2, manifests: [image.manifest] })),
      manifestJson(blobPath(image.config.digest), image.layers.map((l) => blobPath(l.digest)), [
        "app:v1",
      ]),
      ...await Promise.all(
        blobs.map(async ({ digest }) =>
          file(blobPath(digest), await Deno.readFile(join(folder, blobPath(digest))))
        ),
      ),
    ]);
    await using files = await openArchive(path);
    const images = await openDockerArchive(files);
    assert.deepEqual(images.images, [{ name: "app:v1", digest: image.manifest.digest }]);
    assert.ok(await images.get("", image.layers[0].digest));
  });
});

Deno.test("docker archive: what does not fit together is told", async () => {
  await withFolder(async (folder) => {
    const { config, layers } = await saved(folder, true);
    const name = `${digestOf(config).slice(7)}.json`;
    const refused = async (entries: Entry[], wanted: string, why: RegExp) => {
      await using files = await openArchive(await archive(join(folder, "a.tar"), entries));
      await assert.rejects(openDockerArchive(files), code(wanted, why));
    };
    await refused([file("x", "y")], "archive_invalid", /no manifest.json/);
    await refused([file("manifest.json", "{")], "archive_invalid", /is not JSON/);
    await refused([file("manifest.json", "{}")], "archive_invalid", /not a list of images/);
    const both = ["0.tar", "1.tar"];
    await refused([manifestJson(name, both, null)], "archive_invalid", /config .* is missing/);
    const start = [file(name, config), file("0.tar", layers[0])];
    await refused(
      [...start, manifestJson(name, both, null)],
      "archive_invalid",
      /layer 1.tar is missing/,
    );
    await refused(
      [...start, manifestJson(name, ["0.tar"], null)],
      "archive_invalid",
      /names 2 layers, manifest.json 1/,
    );
    await refused(
      [...start, file("1.tar", layers[0]), manifestJson(name, both, null)],
      "digest_invalid",
      /layer 1.tar unpacks to/,
    );
    const other = `${"0".repeat(64)}.json`;
    await refused(
      [file(other, config), manifestJson(other, both, null)],
      "digest_invalid",
      /has the digest/,
    );
  });
});
