/** What a build can give besides an image in the registry, read by other tools. */
import assert from "node:assert/strict";
import { closeIdleWorkers } from "../../lib/base/worker_pool.ts";
import { parseOutput } from "../../lib/api/build_output.ts";
import type { BuildResult } from "../../lib/api/build.ts";
import type { Index, Manifest } from "../../lib/oci/types.ts";
import { writeBaseLayout } from "../../test/peers/base_image.ts";
import { layerEntries } from "../../test/contract/builder.ts";
import { build, MemoryImages } from "../../test/contract/builder_fixture.ts";
import { type EngineFixture, openNewEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({
  root: true,
  commands: ["runc", "skopeo", "tar"],
  files: ["/bin/busybox"],
});

const FILES = {
  Dockerfile: [
    "FROM base",
    "RUN echo built > /built && ln -s built /link && mkdir /d && chown 1000:1000 /d && chmod 750 /d",
    "COPY f /copied",
    "LABEL a=b",
  ].join("\n"),
  f: "from the context\n",
};

/** Takes an archive, as a client does; it is there once. */
async function take(
  { builder, folder }: EngineFixture,
  result: BuildResult,
  index = 0,
): Promise<string> {
  const { id, size } = result.outputs!.find((output) => output.index === index)!;
  const path = `${folder}/taken-${id}`;
  const taken = await builder.archives!.take(id);
  assert.equal(taken!.size, size);
  await Deno.writeFile(path, taken!.stream);
  assert.equal((await Deno.stat(path)).size, size);
  assert.equal(await builder.archives!.take(id), undefined);
  return path;
}

async function tool(...args: string[]): Promise<string> {
  const [command, ...rest] = args;
  const { code, stdout, stderr } = await new Deno.Command(command, { args: rest }).output();
  assert.equal(code, 0, `${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

const test = (name: string, fn: (fixture: EngineFixture) => Promise<void>) =>
  Deno.test({
    name: `outputs: ${name}`,
    ignore,
    fn: async () => {
      await using fixture = await openNewEngine();
      await fn(fixture);
      await fixture.assertClean();
    },
  });

test("archives of both kinds hold the image, and other tools read them", async (fixture) => {
  const { builder, images } = fixture;
  const outputs = ["type=image", "type=oci,compression=zstd,name=named:v2", "type=docker"];
  const { result } = await build(builder, FILES, { outputs: outputs.map(parseOutput) });
  assert.deepEqual(result.names, ["result:latest"]);
  const docker = await take(fixture, result, 2);
  const inspected = JSON.parse(await tool("skopeo", "inspect", `docker-archive:${docker}`));
  assert.equal(inspected.Labels.a, "b");
  const config = await tool("skopeo", "inspect", "--config", "--raw", `docker-archive:${docker}`);
  assert.deepEqual(JSON.parse(config), (await images.image("result")).config);
  assert.match(
    await tool("tar", "-xOf", docker, "manifest.json"),
    /docker.io\/library\/result:latest/,
  );

  const oci = await take(fixture, result, 1);
  const raw = await tool("skopeo", "inspect", "--raw", `oci-archive:${oci}:v2`);
  const manifest = JSON.parse(raw) as Manifest;
  // The base's layer stays as it is; those made here are as asked for.
  assert.deepEqual(manifest.layers.map(({ mediaType }) => mediaType.split("+")[1]), [
    "gzip",
    "zstd",
    "zstd",
  ]);
  const again = await build(builder, FILES, { outputs: [parseOutput(outputs[1])] });
  assert.equal(again.result.ran, 0);
  const same = await take(fixture, again.result);
  assert.equal(await tool("cmp", oci, same), "", "the same image is the same archive");
});

test("force-compression packs the base's layers anew; docker's media types", async (fixture) => {
  const { builder, images } = fixture;
  const { result } = await build(builder, FILES, {
    outputs: [
      parseOutput("type=image,compression=zstd,compression-level=5,force-compression=true"),
      parseOutput("type=image,name=old,oci-mediatypes=false"),
    ],
  });
  const { manifest } = await images.image("result");
  assert.ok(manifest.layers.every(({ mediaType }) => mediaType.endsWith("+zstd")));
  const old = (await images.image("old")).manifest;
  assert.match(old.mediaType!, /docker.distribution.manifest/);
  assert.ok(old.layers.every(({ mediaType }) => /docker.image.rootfs.diff/.test(mediaType)));
  assert.deepEqual(result.names, ["result:latest", "old:latest"]);
});

test("the file system as an archive", async (fixture) => {
  const { builder, folder, images } = fixture;
  const { result } = await build(builder, FILES, { outputs: [parseOutput("type=tar,dest=x")] });
  assert.deepEqual([result.digest, result.names], ["", []]);
  assert.equal(images.manifests.has("result:latest"), false, "nothing was pushed");
  const archive = await take(fixture, result);
  await Deno.mkdir(`${folder}/root`);
  await tool("tar", "-xpf", archive, "-C", `${folder}/root`, "--numeric-owner");
  assert.equal(await Deno.readTextFile(`${folder}/root/built`), "built\n");
  assert.equal(await Deno.readTextFile(`${folder}/root/copied`), FILES.f);
  assert.equal(await Deno.readLink(`${folder}/root/link`), "built");
  const { uid, gid, mode } = await Deno.lstat(`${folder}/root/d`);
  assert.deepEqual([uid, gid, mode! & 0o7777], [1000, 1000, 0o750]);
  assert.ok((await Deno.stat(`${folder}/root/bin/busybox`)).isFile);
  const empty = { Dockerfile: "FROM scratch\nCOPY f /only\n", f: "x" };
  const only = await build(builder, empty, { outputs: [parseOutput("type=local,dest=y")] });
  const list = await tool("tar", "-tf", await take(fixture, only.result));
  assert.deepEqual(list.split("\n").filter(Boolean), ["only"]);
});

test("nothing is pushed where that is said, and what cannot be is refused at once", async (fixture) => {
  const { builder, images } = fixture;
  for (const text of ["type=cacheonly", "type=image,push=false"]) {
    const { result } = await build(builder, FILES, { outputs: [parseOutput(text)] });
    assert.match(result.digest, /^sha256:/);
    assert.deepEqual([result.names, images.manifests.has("result:latest")], [[], false]);
  }
  const { result } = await build(builder, FILES, {
    outputs: [parseOutput("type=image,push-by-digest=true")],
  });
  assert.deepEqual(result.names, ["result"]);
  assert.ok(images.manifests.has(`result@${result.digest}`));
  assert.equal(images.manifests.has("result:latest"), false);
  await assert.rejects(
    build(builder, FILES, { annotations: ["index:a=b"] }),
    { code: "argument_invalid", message: /the image has no index/ },
  );
  await assert.rejects(
    build(builder, FILES, { annotations: ["nothing"] }),
    { code: "argument_invalid" },
  );
});

test("several platforms: an index; annotations go where they are told", async (fixture) => {
  const { builder, images, folder } = fixture;
  const host = Deno.build.arch === "aarch64" ? "arm64" : "amd64";
  const digest = await writeBaseLayout(`${folder}/other`, "foreign", { architecture: "s390x" });
  await images.addLayout(`${folder}/other`, "foreign", digest);
  const platform = `linux/${host},linux/s390x`;
  const files = {
    Dockerfile: [
      "ARG TARGETARCH",
      `FROM base AS for-${host}`,
      "FROM foreign AS for-s390x",
      "FROM --platform=$BUILDPLATFORM base AS build",
      "ARG TARGETARCH",
      "RUN echo for $TARGETARCH > /out",
      "FROM for-$TARGETARCH",
      "COPY --from=build /out /out",
    ].join("\n"),
  };
  const { result, events } = await build(builder, files, {
    platform,
    annotations: [`manifest,index:a=b`, "manifest[linux/s390x]:only=z", "manifest-descriptor:d=e"],
    outputs: [parseOutput("type=image"), parseOutput("type=oci"), parseOutput("type=tar")],
  });
  const index = JSON.parse(
    new TextDecoder().decode(images.manifests.get("result:latest")),
  ) as Index;
  assert.equal(index.mediaType, "application/vnd.oci.image.index.v1+json");
  assert.deepEqual(index.manifests.map((entry) => entry.platform?.architecture), [host, "s390x"]);
  assert.deepEqual([index.annotations, index.manifests[0].annotations], [{ a: "b" }, { d: "e" }]);
  const [own, foreign] = index.manifests.map((entry) =>
    JSON.parse(
      new TextDecoder().decode(images.manifests.get(`result@${entry.digest}`)),
    ) as Manifest
  );
  assert.deepEqual([own.annotations, foreign.annotations], [{ a: "b" }, { a: "b", only: "z" }]);
  assert.notEqual(own.layers.at(-1)!.digest, foreign.layers.at(-1)!.digest);
  assert.deepEqual(result.platforms!.map((one) => one.platform), [`linux/${host}`, "linux/s390x"]);
  assert.ok(events.some((event) => event.type === "vertex" && event.name.includes("linux/s390x")));
  const oci = await take(fixture, result, 1);
  const chosen = await tool("skopeo", "inspect", "--override-arch", "s390x", `oci-archive:${oci}`);
  assert.equal(JSON.parse(chosen).Architecture, "s390x");
  const list = await tool("tar", "-tf", await take(fixture, result, 2));
  for (const path of [`linux_${host}/out`, "linux_s390x/out"]) {
    assert.ok(list.split("\n").includes(path), path);
  }
  await assert.rejects(build(builder, files, { platform, outputs: [parseOutput("type=docker")] }), {
    code: "unsupported",
    message: /several platforms/,
  });
  const foreignRun = { Dockerfile: "FROM foreign\nCOPY f /f\nRUN true\n", f: "x" };
  const seen: string[] = [];
  await assert.rejects(
    build(builder, foreignRun, {
      platform: "linux/s390x",
      onEvent: (event) => event.type === "start" && seen.push(event.id),
    }),
    { code: "unsupported", message: /Dockerfile:3: RUN true: programs for linux\/s390x/ },
  );
  assert.deepEqual(seen, ["context"], "nothing ran");
});

Deno.test({
  name:
    "outputs: the worker's own store has images too, unless told otherwise, and gives layers back",
  ignore,
  fn: async () => {
    const store = new MemoryImages();
    const found: string[] = [];
    await using fixture = await openNewEngine([], {
      open: () => Promise.resolve(Object.assign(store, { [Symbol.asyncDispose]: async () => {} })),
      find: async ({ digest }) => {
        const body = await store.get("", digest);
        if (body) found.push(digest);
        return body;
      },
    });
    const files = { Dockerfile: "FROM base\nRUN echo stored > /file\n" };
    const spec = (text: string) => [parseOutput(text)];
    await build(fixture.builder, files, { outputs: spec("type=image,store=false") });
    assert.equal(store.manifests.size, 0);
    const { result } = await build(fixture.builder, files, {
      outputs: spec("type=image,push=false"),
    });
    assert.deepEqual([...store.manifests.keys()], [`@${result.digest}`, ":result:latest"]);
    // A registry that has lost it gets it from the store: nothing is packed again.
    const { manifest } = await fixture.images.image("result");
    const { digest } = manifest.layers.at(-1)!;
    const bytes = fixture.images.blobs.get(digest);
    fixture.images.blobs.delete(digest);
    found.length = 0;
    await build(fixture.builder, files);
    assert.deepEqual(found, [digest]);
    assert.deepEqual(fixture.images.blobs.get(digest), bytes);
    await fixture.assertClean();
    closeIdleWorkers();
  },
});

test("a layer that is packed while a later step fails leaves nothing", async ({ builder }) => {
  const Dockerfile = "FROM base\nRUN head -c 3000000 /dev/urandom > /random\nRUN exit 3\n";
  await assert.rejects(build(builder, { Dockerfile }), { code: "build_failed" });
});

test("many files that COPY takes are in the steps after it, and in the layer", async (fixture) => {
  const { builder, images } = fixture;
  const many = Object.fromEntries(
    Array.from({ length: 300 }, (_, n) => [`src/d${n % 7}/f${n}`, `file ${n}\n`]),
  );
  const files = {
    ...many,
    "other/d1/f1": "of the second source\n",
    Dockerfile: `FROM scratch AS files
COPY --chmod=640 src /src
FROM base
COPY src/ other/ /there/
COPY --from=files / /from/
COPY src /src
RUN find /src /there /from -type f | wc -l > /count && cat /src/d1/f8 /there/d1/f1 > /two
RUN test "$(stat -c %a /from/src/d2/f9)" = 640
`,
  };
  await build(builder, files);
  const { manifest } = await images.image("result");
  const layers = manifest.layers.slice(-5).map(({ digest }) => layerEntries(images, digest));
  const [there, from, src, counted] = layers;
  for (const layer of [there, from, src]) {
    assert.equal([...layer.values()].filter(({ type }) => type === "file").length, 300);
    assert.deepEqual([...layer.keys()], [...layer.keys()].toSorted());
  }
  assert.equal(from.get("from/src/d2/f9")!.mode, 0o640);
  assert.equal(src.get("src/d2/f9")!.text, "file 9\n");
  assert.equal(counted.get("count")!.text.trim(), "900");
  assert.equal(counted.get("two")!.text, "file 8\nof the second source\n");
});
