/** Which images the server shows and takes, by its registry's mode. */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { SvcError } from "../base/errors.ts";
import { silent } from "../base/log.ts";
import { registryMode } from "../config/server/registry.ts";
import type { DeployCaps } from "../deploy/caps.ts";
import type { ImageToLoad } from "../oci/resolver.ts";
import { MEDIA } from "../oci/types.ts";
import { createContentStore } from "../store/content.ts";
import { createImageResolver } from "./images.ts";
import { ServerRegistry, warnOfAnonymous, warnOfHidden } from "./registry.ts";

const backend = { backend: "engine", hasImages: true, storageGiven: false, rootless: false };

Deno.test("registry mode: the engine's images by default, a store where one is asked for", () => {
  const rows: [Parameters<typeof registryMode>, string][] = [
    [[{}, backend], "host-native"],
    [[{ registrySource: "host-native" }, backend], "host-native"],
    [[{}, { ...backend, storageGiven: true }], "union"],
    [[{ registrySource: "host-native" }, { ...backend, storageGiven: true }], "union"],
    [[{ registrySource: "off" }, backend], "store"],
    [[{ registrySource: "off" }, { ...backend, storageGiven: true }], "store"],
    [[{ registryMirror: "r.example" }, backend], "store"],
    [[{ registryMirror: "r.example" }, { ...backend, storageGiven: true }], "store"],
    [[{}, { ...backend, hasImages: false }], "store"],
    [[{}, { ...backend, rootless: true }], "store"],
    [[{ registrySource: "host-native" }, { ...backend, rootless: true }], "host-native"],
  ];
  for (const [call, mode] of rows) assert.equal(registryMode(...call), mode, JSON.stringify(call));
  assert.throws(
    () => registryMode({ registrySource: "host-native" }, { ...backend, hasImages: false }),
    { code: "config_invalid", message: /host-native: the backend engine has no images of its own/ },
  );
});

function fixture(
  mode: "store" | "host-native" | "union",
  caps: DeployCaps = {},
  takesPushes = false,
) {
  const store = createContentStore(openMemStore(), { log: silent });
  const isOwn = (host: string) => host === "localhost:5000";
  const ownHost = () => "localhost:5000";
  const server = new ServerRegistry({ mode, store, isOwn, ownHost, takesPushes });
  server.connect(() => Promise.resolve({ name: "engine", caps }));
  const resolver = createImageResolver({
    local: server.local,
    isOwn,
    ownHost,
    remote: () => store,
  });
  return { server, resolver, store };
}

const LOADED = { source: {}, repository: "", digest: "sha256:0" } as unknown as ImageToLoad;

Deno.test("host-native: a build's image is loaded under its name and those that meant the image before", async () => {
  const loads: ImageToLoad[] = [];
  const tags: Record<string, string[]> = {
    "app": ["v1"],
    "localhost:5000/app": ["v1", "v2"],
    "other.example/app": ["v1"],
  };
  const { resolver, server } = fixture("host-native", {
    load: (image) => Promise.resolve(void loads.push(image)),
    images: {
      reader: {
        async *tags(name: string) {
          yield* tags[name] ?? [];
        },
      } as never,
      async *repositories() {
        yield* Object.keys(tags);
      },
    },
  });
  assert.equal(server.view.writer, undefined);
  const namesOf = async (name: string) => {
    const { load, sink } = resolver.target(name);
    await assert.rejects(sink.hasBlob("app", "sha256:0"), { code: "registry_read_only" });
    await load!.load({ ...LOADED, names: load!.names });
    return loads.at(-1)!.names;
  };
  assert.deepEqual(await namesOf("app:v3"), ["app:v3"]);
  assert.deepEqual(await namesOf("app:v1"), ["app:v1", "localhost:5000/app:v1"]);
  assert.deepEqual(await namesOf("localhost:5000/new"), [
    "new:latest",
    "localhost:5000/new:latest",
  ]);
  // Another registry's name is pushed there.
  assert.equal(resolver.target("ghcr.io/org/app:v1").load, undefined);
});

Deno.test("host-native: no build takes the name of the builder's image", async () => {
  const loads: ImageToLoad[] = [];
  const { resolver, server } = fixture("host-native", {
    load: (image) => Promise.resolve(void loads.push(image)),
    images: {
      reader: { async *tags() {} } as never,
      async *repositories() {},
    },
  });
  const refusal = { code: "reference_invalid", message: /the image of this server's builder/ };
  const names = [
    "svc-builder",
    "svc-builder:v1",
    "library/svc-builder:v1",
    "localhost:5000/svc-builder:v1",
    "localhost:5000/library/svc-builder:v1",
    "docker.io/svc-builder:v1",
    "docker.io/library/svc-builder:v1",
    "index.docker.io/library/svc-builder",
  ];
  for (const name of names) assert.throws(() => resolver.target(name), refusal, name);
  for (const name of ["svc-builder:v1", "localhost/svc-builder:v1", ...names.slice(2)]) {
    const loading = server.local.load!({ ...LOADED, names: ["app:v1", name] });
    await assert.rejects(loading, refusal, name);
  }
  assert.deepEqual(loads, []);
  assert.ok(resolver.target("org/svc-builder:v1").load);
  assert.equal(resolver.target("ghcr.io/svc-builder:v1").load, undefined);
});

Deno.test("host-native: an engine that takes pushes gets what is built", async () => {
  const published: string[] = [];
  const caps = {
    images: {
      reader: { async *tags() {} } as never,
      async *repositories() {},
      writer: {
        publish: (
          _repository: string,
          _type: string,
          _bytes: Uint8Array,
          { name }: { name: string },
        ) => Promise.resolve({ descriptor: void published.push(name) }),
      } as never,
    },
  };
  const { resolver, server } = fixture("host-native", caps, true);
  const { sink, load, tag, repository } = resolver.target("app:v1");
  assert.equal(load, undefined);
  await sink.putManifest(repository, MEDIA.manifest, new Uint8Array(), [tag]);
  assert.deepEqual(published, ["localhost:5000/app"]);
  assert.ok(server.view.writer);
  const without = fixture("host-native", { images: { ...caps.images, writer: undefined } }, true);
  await assert.rejects(without.server.view.writer!.startUpload("app"), { code: "unsupported" });
});

Deno.test("union and store: builds go to the store", () => {
  for (const mode of ["store", "union"] as const) {
    const { resolver, store, server } = fixture(mode);
    const { sink, load } = resolver.target("app:v1");
    assert.equal(sink, store);
    assert.equal(load, undefined);
    assert.ok(server.view.writer);
  }
});

Deno.test("host-native: a backend that shows or takes no images is told", async () => {
  const { resolver, server } = fixture("host-native");
  await assert.rejects(server.view.reader.resolve("app", "v1"), { code: "unsupported" });
  const { load } = resolver.target("app:v1");
  await assert.rejects(load!.load({ ...LOADED, names: load!.names }), (error: SvcError) => {
    assert.match(error.message, /the backend engine takes none/);
    return true;
  });
});

Deno.test("anonymous pulls of the engine's images are warned of", () => {
  const warned: string[] = [];
  const log = { ...silent, warn: (message: string) => warned.push(message) } as typeof silent;
  warnOfAnonymous("store", true, log);
  warnOfAnonymous("union", false, log);
  assert.deepEqual(warned, []);
  warnOfAnonymous("union", true, log);
  warnOfAnonymous("host-native", true, log);
  assert.equal(warned.length, 2);
});

Deno.test("host-native: images that were pushed to an earlier server are told of", async () => {
  const dataDir = await Deno.makeTempDir({ prefix: "svc-hidden-" });
  try {
    const warned: string[] = [];
    const log = { ...silent, warn: (message: string) => warned.push(message) } as typeof silent;
    await warnOfHidden("host-native", dataDir, log);
    await Deno.mkdir(`${dataDir}/registry/blobs`, { recursive: true });
    await warnOfHidden("store", dataDir, log);
    await warnOfHidden("union", dataDir, log);
    assert.deepEqual(warned, []);
    await warnOfHidden("host-native", dataDir, log);
    assert.equal(warned.length, 1);
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
});
