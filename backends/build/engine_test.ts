import assert from "node:assert/strict";
import { mountsUnder } from "../../lib/sys/mountinfo.ts";
import { builderContract } from "../../test/contract/builder.ts";
import { amendedContract } from "../../test/contract/builder_amend.ts";
import { timesContract } from "../../test/contract/builder_times.ts";
import { build } from "../../test/contract/builder_fixture.ts";
import { openNewEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

builderContract({ name: "engine on runc", ignore, open: openNewEngine });
amendedContract({ name: "engine on runc", ignore, open: openNewEngine });
timesContract({ name: "engine on runc", ignore, open: openNewEngine });

Deno.test({
  name: "engine: a later one clears what a crash left and keeps the cache",
  ignore,
  fn: async () => {
    await using first = await openNewEngine();
    const files = { Dockerfile: "FROM base\nRUN echo kept > /kept\n" };
    const { result } = await build(first.builder, files);
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const lost = build(
      first.builder,
      { Dockerfile: "FROM base\nRUN echo begun; sleep 1000\n" },
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
    await using fixture = await openNewEngine();
    const { builder, images, folder } = fixture;
    const files = { Dockerfile: "FROM base\nRUN echo a > /a\nRUN echo b > /b\n" };
    const reproducible = { reproducible: true };
    const { result } = await build(builder, files, reproducible);
    // The registry lost the layers: they are packed again from the snapshots.
    const { manifest } = await images.image("result");
    for (const { digest } of manifest.layers.slice(1)) images.blobs.delete(digest);
    const pushed = await build(builder, files, reproducible);
    assert.deepEqual([pushed.result.ran, pushed.result.digest], [0, result.digest]);
    assert.ok(manifest.layers.every(({ digest }) => images.blobs.has(digest)));
    for (const { name } of Deno.readDirSync(`${folder}/build/cache/steps`)) {
      await Deno.writeTextFile(`${folder}/build/cache/steps/${name}`, "{torn");
    }
    const rebuilt = await build(builder, files, reproducible);
    assert.deepEqual([rebuilt.result.ran, rebuilt.result.digest], [2, result.digest]);
    await fixture.assertClean();
  },
});

/** Bytes on disk of what the engine keeps, by du. */
async function diskUse(folder: string): Promise<number> {
  const paths = ["snapshots", "build/cache", "build/cache-mounts"].map((one) => `${folder}/${one}`);
  const { stdout } = await new Deno.Command("du", { args: ["-sck", "-B1", ...paths] }).output();
  return Number(new TextDecoder().decode(stdout).trimEnd().split("\n").at(-1)!.split("\t")[0]);
}

Deno.test({
  name: "engine: the cache stays below its ceiling, and what is in use stays with it",
  ignore,
  fn: async () => {
    const keep = 8 << 20;
    await using first = await openNewEngine();
    const step = (name: string) => ({
      Dockerfile:
        `FROM base\nRUN --mount=type=cache,target=/c head -c 3000000 /dev/zero > /${name}` +
        `; head -c 1000000 /dev/zero > /c/${name}\n`,
    });
    await build(first.builder, step("before"));
    await first.builder[Symbol.asyncDispose]();
    const { builder, snapshotter, folder, assertClean } = await first.again(keep);
    // A workload stands on the base image alone.
    const { config } = await first.images.image("base");
    const chain = config.rootfs.diff_ids[0];
    await snapshotter.prepare("bare-workload", chain);
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const running = build(builder, {
      Dockerfile: "FROM base\nRUN head -c 3000000 /dev/zero > /held\n" +
        "RUN --mount=type=cache,id=gate,target=/g echo begun; until [ -e /g/go ]; do sleep 0.1; done\n",
    }, { onEvent: (event) => event.type === "output" && resolve(), tags: [] });
    await begun;
    for (const name of ["a", "b", "c", "d", "e"]) await build(builder, step(name));
    const again = await build(builder, step("e"));
    assert.equal(again.result.ran, 0, "the last one is kept");
    await build(builder, {
      Dockerfile: "FROM base\nRUN --mount=type=cache,id=gate,target=/g touch /g/go\n",
    });
    await running;
    const usage = async () => (await builder.cache!.usage()).bytes;
    await builder.cache!.prune();
    assert.ok(await usage() <= keep, `${await usage()}`);
    // The base image's layer is the workload's; what is left over is folders and records.
    const base = (await snapshotter.stat(chain))!.size!;
    assert.ok(await diskUse(folder) <= keep + base + (256 << 10), `${await diskUse(folder)}`);
    assert.ok(await snapshotter.active("bare-workload"));
    const rebuilt = await build(builder, step("a"));
    assert.equal(rebuilt.result.ran, 1, "the oldest went");
    await snapshotter.remove("bare-workload");
    await assertClean();
  },
});
