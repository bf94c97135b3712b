import assert from "node:assert/strict";
import { silent } from "../../lib/base/log.ts";
import { createBuilder } from "../../lib/build/engine.ts";
import { createRuntime } from "../../lib/runtime/runc.ts";
import { createSnapshotter } from "../../lib/snapshot/create.ts";
import { closeTreeWorkers } from "../../lib/snapshot/tree_jobs.ts";
import { unpackImage } from "../../lib/snapshot/unpack.ts";
import { mountsUnder } from "../../lib/sys/mountinfo.ts";
import { builderContract, type BuilderFixture } from "../../test/contract/builder.ts";
import { build, imagesWithBase } from "../../test/contract/builder_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";
import { createRuncExecutor } from "./runc.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

interface EngineFixture extends BuilderFixture {
  folder: string;
  /** Opens the engine on the same data once more, as after a crash. */
  again(): Promise<EngineFixture>;
}

async function openEngine(
  folder: string,
  images?: BuilderFixture["images"],
): Promise<EngineFixture> {
  const known = images ?? await imagesWithBase(folder);
  const runtime = await createRuntime({ binary: "runc", root: `${folder}/state` });
  const snapshotter = await createSnapshotter({
    root: `${folder}/snapshots`,
    driver: "auto",
    log: silent,
  });
  const builder = await createBuilder({
    root: `${folder}/build`,
    snapshotter,
    executor: createRuncExecutor({ runtime, bundles: `${folder}/build/bundles` }),
    images: known,
    log: silent,
    concurrency: 4,
    unpack: (image, options) => unpackImage(snapshotter, image, options),
  });
  return {
    builder,
    images: known,
    folder,
    again: () => openEngine(folder, known),
    assertClean: async () => {
      await builder[Symbol.asyncDispose]();
      assert.deepEqual(await mountsUnder(folder), []);
      assert.deepEqual(await runtime.list(), []);
      for (const name of ["mnt", "tmp", "contexts"]) {
        assert.deepEqual([...Deno.readDirSync(`${folder}/build/${name}`)], [], name);
      }
      for await (const { kind, name } of snapshotter.list()) {
        assert.equal(kind, "committed", `${name} is left active`);
      }
    },
    [Symbol.asyncDispose]: async () => {
      await builder[Symbol.asyncDispose]();
      closeTreeWorkers();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

const openNew = async () => await openEngine(await Deno.makeTempDir({ prefix: "svc-build-" }));

builderContract({ name: "engine on runc", ignore, open: openNew });

Deno.test({
  name: "engine: a later one clears what a crash left and keeps the cache",
  ignore,
  fn: async () => {
    await using first = await openNew();
    const files = { Dockerfile: "FROM base\nRUN echo kept > /kept\n" };
    const { result } = await build(first.builder, files);
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const lost = build(
      first.builder,
      { Dockerfile: "FROM base\nRUN echo begun; sleep 100\n" },
      { onEvent: (event) => event.type === "output" && resolve() },
    );
    lost.catch(() => {});
    await begun;
    // The first engine still believes it runs: what a killed server leaves looks the same.
    const later = await first.again();
    assert.deepEqual(await mountsUnder(first.folder), []);
    const again = await build(later.builder, files);
    assert.deepEqual([again.result.ran, again.result.digest], [0, result.digest]);
    await assert.rejects(lost);
    await later.assertClean();
  },
});

Deno.test({
  name: "engine: a record whose snapshot or blob is gone is no obstacle",
  ignore,
  fn: async () => {
    await using fixture = await openNew();
    const { builder, images, folder } = fixture;
    const files = { Dockerfile: "FROM base\nRUN echo a > /a\nRUN echo b > /b\n" };
    const { result } = await build(builder, files);
    // The registry lost the layers: they are packed again from the snapshots.
    const { manifest } = await images.image("result");
    for (const { digest } of manifest.layers.slice(1)) images.blobs.delete(digest);
    const pushed = await build(builder, files);
    assert.deepEqual([pushed.result.ran, pushed.result.digest], [0, result.digest]);
    assert.ok(manifest.layers.every(({ digest }) => images.blobs.has(digest)));
    for (const { name } of Deno.readDirSync(`${folder}/build/cache/steps`)) {
      await Deno.writeTextFile(`${folder}/build/cache/steps/${name}`, "{torn");
    }
    const rebuilt = await build(builder, files);
    assert.deepEqual([rebuilt.result.ran, rebuilt.result.digest], [2, result.digest]);
    await fixture.assertClean();
  },
});
