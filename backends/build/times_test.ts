/** Times of files: those of the steps in every snapshot, dated ones in layers that were asked to be so. */
import assert from "node:assert/strict";
import { parseCacheFrom, parseCacheTo } from "../../lib/api/build_cache_spec.ts";
import { parseOutput } from "../../lib/api/build_output.ts";
import { readTar } from "../../lib/oci/tar_read.ts";
import { chainIDs } from "../../lib/snapshot/unpack.ts";
import { layerEntries } from "../../test/contract/builder.ts";
import { build, type Files } from "../../test/contract/builder_fixture.ts";
import {
  type EngineFixture,
  openEngine,
  openNewEngine,
} from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

const EPOCH = 1_234_567_890;
const DATED = { buildArgs: { SOURCE_DATE_EPOCH: String(EPOCH) } };
const FILES: Files = { Dockerfile: "FROM base\nRUN echo 1 > /one\n" };
const LOOKING: Files = { Dockerfile: `${FILES.Dockerfile}RUN stat -c "at %Y" /one\n` };

const test = (name: string, fn: (first: EngineFixture, began: number) => Promise<void>) =>
  Deno.test({
    name: `times: ${name}`,
    ignore,
    fn: async () => {
      await using first = await openNewEngine();
      await fn(first, Math.floor(Date.now() / 1000));
      await first.assertClean();
    },
  });

const shown = (output: string) => Number(/^at (\d+)$/m.exec(output)![1]);

test("a dated build's cache has the steps' own", async (first, began) => {
  const cacheTo = [parseCacheTo("type=registry,ref=cache")];
  await build(first.builder, FILES, { ...DATED, cacheTo });
  const { manifest } = await first.images.image("result");
  const one = layerEntries(first.images, manifest.layers.at(-1)!.digest).get("one")!;
  assert.equal(one.mtime, EPOCH);
  await using second = await openEngine(
    await Deno.makeTempDir({ prefix: "svc-build-" }),
    first.images,
  );
  const cacheFrom = [parseCacheFrom("cache")];
  const again = await build(second.builder, LOOKING, { ...DATED, cacheFrom, tags: [] });
  assert.equal(again.result.ran, 1);
  assert.ok(shown(again.output) >= began, again.output);
  await second.assertClean();
});

test("a dated image carries no cache, and the build says so", async (first) => {
  const cacheTo = [parseCacheTo("type=inline")];
  const warnings: string[] = [];
  await build(first.builder, FILES, {
    ...DATED,
    cacheTo,
    onEvent: (event) => event.type === "warning" && warnings.push(event.message),
  });
  assert.match(warnings.join(), /type=inline is left out.*type=registry/);
  const { config } = await first.images.image("result");
  assert.doesNotMatch(JSON.stringify(config), /buildcache/);
});

test(
  "a workload and a FROM see what the image says, steps see what was done",
  async (first, began) => {
    const { builder, images, snapshotter } = first;
    const top = async () => chainIDs((await images.image("result")).config.rootfs.diff_ids).at(-1)!;
    await build(builder, FILES, DATED);
    assert.equal(await snapshotter.stat(await top()), undefined, "its layers have other times");
    const from = { Dockerfile: 'FROM result\nRUN stat -c "at %Y" /one\n' };
    assert.equal(shown((await build(builder, from, { tags: ["from"] })).output), EPOCH);
    // The image is unpacked by now; the step's own snapshot is not to be mixed up with it.
    const looking = await build(builder, LOOKING, { ...DATED, tags: ["looking"] });
    assert.equal(looking.result.ran, 1);
    assert.ok(shown(looking.output) >= began);
    await build(builder, FILES);
    assert.ok(await snapshotter.stat(await top()), "a deploy finds it");
  },
);

test("a file tree that leaves is dated too", async (first, began) => {
  const { builder } = first;
  const times = async (request: Parameters<typeof build>[2]) => {
    const outputs = [parseOutput("type=tar,dest=x")];
    const { result } = await build(builder, FILES, { ...request, outputs });
    const taken = await builder.archives!.take(result.outputs![0].id!);
    for await (const { header } of readTar(taken!.stream)) {
      if (header.path === "one") return header.mtime;
    }
  };
  assert.ok((await times({}))! >= began);
  assert.equal(await times(DATED), EPOCH);
});

/** A dynamic program and its libraries, at their places. */
async function program(path: string): Promise<Files> {
  const { stdout } = await new Deno.Command("ldd", { args: [path] }).output();
  const found = new TextDecoder().decode(stdout).match(/\/\S+/g) ?? [];
  const files: Files = {};
  for (const file of [path, ...found]) {
    files[`root${file}`] = { data: await Deno.readFile(await Deno.realPath(file)), mode: 0o755 };
  }
  return files;
}

Deno.test({
  name: "times: make builds again what a later step has changed",
  ignore: requireTools({
    root: true,
    commands: ["runc", "ldd"],
    files: ["/bin/busybox", "/usr/bin/make"],
  }).ignore,
  fn: async () => {
    await using engine = await openNewEngine();
    const steps = [
      "FROM base",
      "COPY root /",
      'RUN printf "out: in\\n\\tcp in out\\n" > Makefile && echo v1 > in && make',
      "RUN echo v2 > in",
      "RUN make && grep v2 out",
    ];
    const files = { ...await program("/usr/bin/make"), Dockerfile: steps.join("\n") };
    for (const request of [{}, { reproducible: true, noCache: true }]) {
      const { output } = await build(engine.builder, files, request);
      assert.match(output, /cp in out\n(.*\n)*.*cp in out\n.*v2/);
    }
    await engine.assertClean();
  },
});
