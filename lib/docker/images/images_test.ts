/** The images of an engine as a registry serves them, from archives as docker's daemons write them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { digestOf } from "../../oci/digest.ts";
import { type Digest, type Manifest, MEDIA } from "../../oci/types.ts";
import { ExportCache } from "./export_cache.ts";
import { EngineImages, splitName } from "./reader.ts";
import { type ArchiveKind, encode, FakeEngine, fakeImage } from "./testing.ts";

const LAYERS = [encode("a".repeat(3000)), encode("the upper layer")];

async function fixture(limit?: number) {
  const folder = await Deno.makeTempDir({ prefix: "svc-view-" });
  const engine = new FakeEngine();
  const open = () => {
    const cache = new ExportCache({
      folder: join(folder, "images"),
      limit,
      graceMs: 0,
      export: (id, signal) => engine.export(id, signal),
      log: silent,
    });
    return { cache, images: new EngineImages(engine, cache) };
  };
  return {
    engine,
    folder: join(folder, "images"),
    open,
    ...open(),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

type Images = EngineImages;

const parsed = (bytes: Uint8Array) => JSON.parse(new TextDecoder().decode(bytes)) as Manifest;

async function digestAt(images: Images, repository: string, reference: string) {
  return (await images.resolve(repository, reference))?.descriptor.digest;
}

async function bytesOf(images: Images, digest: Digest, range?: { start: number; end?: number }) {
  const body = await images.get("any", digest, range && { range });
  const bytes = await new Response(body!.stream() as ReadableStream<Uint8Array<ArrayBuffer>>)
    .bytes();
  assert.equal(bytes.length, body!.size);
  return bytes;
}

/** Reads everything that a client would pull. */
async function pull(images: Images, repository: string, reference: string) {
  const found = (await images.resolve(repository, reference))!;
  assert.equal(digestOf(found.bytes), found.descriptor.digest);
  const { config, layers } = parsed(found.bytes);
  for (const { digest, size } of [config, ...layers]) {
    assert.deepEqual(await images.stat(repository, digest), { size });
    assert.equal(digestOf(await bytesOf(images, digest)), digest);
  }
  return found.descriptor.digest;
}

for (const kind of ["docker-20", "docker-28", "containerd"] satisfies ArchiveKind[]) {
  Deno.test(`view of ${kind}: an image is pulled whole, and its digest is the same at every read`, async () => {
    await using at = await fixture();
    const image = fakeImage(LAYERS, kind);
    at.engine.add(image, "app:v1");
    const digest = await pull(at.images, "app", "v1");
    assert.equal(await pull(at.images, "app", "v1"), digest);
    assert.equal(await pull(at.images, "app", digest), digest);
    assert.equal(at.engine.exports.length, 1);
    const { layers, config } = parsed((await at.images.resolve("app", "v1"))!.bytes);
    assert.deepEqual(layers.map(({ digest }) => digest), image.diffIDs);
    assert.equal(config.digest, digestOf(image.config));
    // As it would be after a restart of the server, and after somebody emptied the folder.
    assert.equal(await pull(at.open().images, "app", "v1"), digest);
    assert.equal(at.engine.exports.length, 1);
    await Deno.remove(at.folder, { recursive: true });
    assert.equal(await pull(at.images, "app", "v1"), digest);
    assert.equal(await pull(at.open().images, "app", "v1"), digest);
    assert.equal(at.engine.exports.length, 2);
  });
}

Deno.test("view: docker 20.10 and 28 give the same manifest; containerd's store gives the one it keeps", async () => {
  await using at = await fixture();
  at.engine.add(fakeImage(LAYERS, "docker-20"), "app:v1");
  const digest = await digestAt(at.images, "app", "v1");
  await at.cache.forget(() => true);
  at.engine.add(fakeImage(LAYERS, "docker-28"), "app:v1");
  assert.equal(await digestAt(at.images, "app", "v1"), digest);
  const kept = fakeImage(LAYERS, "containerd");
  at.engine.add(kept, "app:v1");
  assert.equal(await digestAt(at.images, "app", "v1"), kept.id);
  // A digest that was never read: the engine knows it.
  await at.cache.forget(() => true);
  assert.equal(await pull(at.images, "app", kept.id), kept.id);
  // The id of an image is no manifest where the store keeps none.
  assert.equal(await at.images.resolve("app", digestOf(kept.config)), undefined);
});

Deno.test("view: ranges, and what is not there", async () => {
  await using at = await fixture();
  const image = fakeImage(LAYERS);
  at.engine.add(image, "app:v1");
  assert.equal(await at.images.resolve("app", "v2"), undefined);
  assert.equal(await at.images.resolve("none", "v1"), undefined);
  assert.equal(await at.images.resolve("app", digestOf(encode("x"))), undefined);
  assert.equal(await at.images.stat("app", digestOf(encode("x"))), undefined);
  assert.equal(await at.images.get("app", digestOf(encode("x"))), undefined);
  await at.images.resolve("app", "v1");
  const text = async (range: { start: number; end?: number }) =>
    new TextDecoder().decode(await bytesOf(at.images, image.diffIDs[1], range));
  assert.equal(await text({ start: 4, end: 8 }), "upper");
  assert.equal(await text({ start: 10 }), "layer");
  const { file } = (await at.images.get("app", image.diffIDs[1], { range: { start: 4 } }))!;
  using open = await Deno.open(file!.path);
  await open.seek(file!.offset, Deno.SeekMode.Start);
  const found = new Uint8Array(5);
  await open.read(found);
  assert.equal(new TextDecoder().decode(found), "upper");
  assert.deepEqual(await Array.fromAsync(at.images.referrers()), []);
});

Deno.test("view: images of 100 layers, of none, of the same layer twice, of another platform", async () => {
  await using at = await fixture();
  const many = Array.from({ length: 100 }, (_, at) => encode(`layer ${at}`));
  for (const kind of ["docker-20", "docker-28", "containerd"] satisfies ArchiveKind[]) {
    at.engine.add(fakeImage(many, kind), "many:v1");
    at.engine.add(fakeImage([], kind), "none:v1");
    at.engine.add(fakeImage([LAYERS[0], LAYERS[1], LAYERS[0]], kind), "twice:v1");
    at.engine.add(fakeImage(LAYERS, kind, "windows/arm64"), "foreign:v1");
    for (const name of ["many", "none", "twice", "foreign"]) await pull(at.images, name, "v1");
    const { layers } = parsed((await at.images.resolve("many", "v1"))!.bytes);
    assert.equal(layers.length, 100);
  }
});

Deno.test("view: an index of the containerd store is served with the platforms that the store has", async () => {
  await using at = await fixture();
  const image = fakeImage(LAYERS, "containerd");
  const manifest = image.files.find(([path]) => path.endsWith(image.id.slice(7)))![1] as Uint8Array;
  const absent = digestOf(encode("a platform that nobody pulled"));
  const index = encode({
    schemaVersion: 2,
    mediaType: MEDIA.index,
    manifests: [
      { mediaType: MEDIA.manifest, digest: absent, size: 7 },
      { mediaType: MEDIA.manifest, digest: image.id, size: manifest.length },
    ],
  });
  const id = digestOf(index);
  const list = encode({
    schemaVersion: 2,
    manifests: [{ mediaType: MEDIA.index, digest: id, size: index.length }],
  });
  const files = image.files.filter(([path]) => path !== "index.json");
  files.push([`blobs/sha256/${id.slice(7)}`, index], ["index.json", list]);
  at.engine.add({ ...image, id, files }, "app:v1");
  const found = await at.images.resolve("app", "v1");
  assert.equal(found?.descriptor.digest, id);
  assert.equal(found.descriptor.mediaType, MEDIA.index);
  assert.equal(await pull(at.images, "app", image.id), image.id);
  assert.equal(await at.images.resolve("app", absent), undefined);
});

Deno.test("view: an export that breaks off is told, and nothing of it is kept", async () => {
  await using at = await fixture();
  const id = at.engine.add(fakeImage(LAYERS), "app:v1");
  const left = () => [...Deno.readDirSync(at.folder)].map(({ name }) => name);
  for (at.engine.cut of [0, 100, 2000, 4000]) {
    await assert.rejects(at.images.resolve("app", "v1"), (error: SvcError) => {
      assert.equal(error.code, "upstream_failed", `${at.engine.cut}: ${error.message}`);
      assert.match(error.message, new RegExp(`^Cannot export image ${id}: `));
      return true;
    });
    assert.deepEqual(left(), []);
  }
  at.engine.cut = undefined;
  await pull(at.images, "app", "v1");
});

Deno.test("view: bytes that are not what the image says are refused", async () => {
  await using at = await fixture();
  for (const kind of ["docker-20", "docker-28", "containerd"] satisfies ArchiveKind[]) {
    const image = fakeImage(LAYERS, kind);
    const files = image.files.map(([path, content]): typeof image.files[number] =>
      content === LAYERS[0] ? [path, encode("b".repeat(3000))] : [path, content]
    );
    at.engine.add({ ...image, files }, "app:v1");
    await assert.rejects(at.images.resolve("app", "v1"), /has the digest sha256/);
    const other = fakeImage([encode("other")], kind);
    at.engine.add({ ...other, id: image.id }, "app:v1");
    await assert.rejects(at.images.resolve("app", "v1"), { code: "upstream_failed" });
  }
  assert.deepEqual([...Deno.readDirSync(at.folder)], []);
});

Deno.test("view: an engine that is away fails the read, and the next one works", async () => {
  await using at = await fixture();
  const image = fakeImage(LAYERS);
  at.engine.add(image, "app:v1");
  at.engine.down = new SvcError("unavailable", "Cannot reach the engine: it is away");
  await assert.rejects(at.images.resolve("app", "v1"), { code: "unavailable" });
  await assert.rejects(Array.fromAsync(at.images.tags("app")), { code: "unavailable" });
  await assert.rejects(Array.fromAsync(at.images.repositories()), { code: "unavailable" });
  at.engine.down = undefined;
  await pull(at.images, "app", "v1");
});

Deno.test("view: many readers of one image make one export, which ends with the last of them", async () => {
  await using at = await fixture();
  at.engine.add(fakeImage(LAYERS), "app:v1");
  let go = () => {};
  at.engine.gate = new Promise((resolve) => go = resolve);
  const stop = new AbortController();
  const given = at.images.resolve("app", "v1", { signal: stop.signal });
  const readers = Array.from({ length: 20 }, () => pull(at.images, "app", "v1"));
  while (at.engine.exports.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  stop.abort(new DOMException("left", "AbortError"));
  await assert.rejects(given, { name: "AbortError" });
  go();
  assert.equal(new Set(await Promise.all(readers)).size, 1);
  assert.equal(at.engine.exports.length, 1);
  // All leave: nothing of the export stays.
  await at.cache.forget(() => true);
  at.engine.gate = new Promise((resolve) => go = resolve);
  const last = new AbortController();
  const left = at.images.resolve("app", "v1", { signal: last.signal });
  while (at.engine.exports.length === 1) await new Promise((resolve) => setTimeout(resolve, 5));
  last.abort(new DOMException("left", "AbortError"));
  await assert.rejects(left, { name: "AbortError" });
  go();
  await at.cache[Symbol.asyncDispose]();
  assert.deepEqual([...Deno.readDirSync(at.folder)], []);
});

Deno.test("view: the archives have a bound; the least recently used goes, what is being read stays", async () => {
  await using at = await fixture(2_000_000);
  // The first has many chunks: its reader does not come to the end.
  const sizes = { one: 1_500_000, two: 300_000, three: 400_000 };
  const images = Object.entries(sizes).map(([name, size]) => {
    const image = fakeImage([encode(name[1].repeat(size))]);
    at.engine.add(image, `${name}:v1`);
    return image;
  });
  const [one, two, three] = images.map(({ id }) => `${id.slice(7)}.tar`);
  const kept = () =>
    [...Deno.readDirSync(at.folder)].map(({ name }) => name).filter((name) => name.endsWith(".tar"))
      .sort();
  await pull(at.images, "one", "v1");
  await pull(at.images, "two", "v1");
  assert.deepEqual(kept(), [one, two].sort());
  const reader = (await at.images.get("one", images[0].diffIDs[0]))!.stream().getReader();
  await reader.read();
  await new Promise((resolve) => setTimeout(resolve, 5));
  await pull(at.images, "two", "v1");
  await new Promise((resolve) => setTimeout(resolve, 5));
  const before = await digestAt(at.images, "two", "v1");
  await pull(at.images, "three", "v1");
  assert.deepEqual(kept(), [one, three].sort());
  await reader.cancel();
  // What was dropped is exported again, by the digest that is known of it.
  assert.equal(await pull(at.images, "two", before!), before);
  assert.deepEqual(at.engine.exports.length, 4);
});

Deno.test("view: what the engine no longer has is not served, and nothing of it is kept", async () => {
  await using at = await fixture();
  const image = fakeImage(LAYERS);
  at.engine.add(image, "app:v1");
  const digest = await pull(at.images, "app", "v1");
  at.engine.remove(image.id);
  assert.equal(await at.images.resolve("app", "v1"), undefined);
  const { images } = at.open();
  assert.equal(await images.resolve("app", digest), undefined);
  assert.equal(await images.get("app", image.diffIDs[0]), undefined);
  assert.deepEqual([...Deno.readDirSync(at.folder)], []);
});

Deno.test("view: repositories and tags are the engine's names, in order", async () => {
  await using at = await fixture();
  at.engine.add(fakeImage([LAYERS[0]]), "app:v2", "app:v1", "ghcr.io/org/tool:latest");
  at.engine.add(fakeImage([LAYERS[1]]), "localhost:5000/app:v3");
  at.engine.add(fakeImage([]));
  assert.deepEqual(await Array.fromAsync(at.images.repositories()), [
    "app",
    "ghcr.io/org/tool",
    "localhost:5000/app",
  ]);
  assert.deepEqual(await Array.fromAsync(at.images.tags("app")), ["v1", "v2"]);
  assert.deepEqual(await Array.fromAsync(at.images.tags("app", { after: "v1" })), ["v2"]);
  assert.deepEqual(await Array.fromAsync(at.images.tags("none")), []);
  assert.equal(splitName("localhost:5000/app"), undefined);
  assert.equal(at.engine.exports.length, 0);
});

Deno.test("view: records of another form, and what a crash left, are removed", async () => {
  await using at = await fixture();
  await Deno.mkdir(at.folder, { recursive: true });
  const hex = "0".repeat(64);
  await Deno.writeTextFile(join(at.folder, `${hex}.json`), "{");
  await Deno.writeTextFile(join(at.folder, `${hex}.tar`), "half");
  await Deno.writeTextFile(join(at.folder, `${hex}.part`), "half");
  await at.images.stat("app", `sha256:${hex}`);
  assert.deepEqual([...Deno.readDirSync(at.folder)], []);
});
