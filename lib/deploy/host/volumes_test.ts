import assert from "node:assert/strict";
import { join } from "node:path";
import { NamedVolumes } from "./volumes.ts";

Deno.test("a new volume is filled from the image once and keeps its content", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const seed = join(dir, "seed");
    await Deno.mkdir(seed, { mode: 0o750 });
    await Deno.writeTextFile(join(seed, "a"), "1");
    const volumes = new NamedVolumes(join(dir, "volumes"));
    assert.deepEqual(await volumes.list(), []);
    const [path, again] = await Promise.all([
      volumes.ensure("db", seed),
      volumes.ensure("db", seed),
    ]);
    assert.equal(path, again);
    assert.equal(await Deno.readTextFile(join(path, "a")), "1");
    assert.equal(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o750);
    await Deno.writeTextFile(join(path, "a"), "2");
    await volumes.ensure("db", seed);
    assert.equal(await Deno.readTextFile(join(path, "a")), "2");
    await volumes.ensure("empty", join(dir, "missing"));
    const { ino } = await Deno.stat(await volumes.ensure("empty"));
    const filled = await volumes.ensure("empty", seed);
    assert.equal(await Deno.readTextFile(join(filled, "a")), "1", "an empty one is filled too");
    const after = await Deno.stat(filled);
    assert.deepEqual([after.ino, (after.mode ?? 0) & 0o777], [ino, 0o750], "in place");
    const left = await Array.fromAsync(Deno.readDir(join(dir, "volumes/empty")));
    assert.deepEqual(left.map(({ name }) => name), ["_data"]);
    assert.deepEqual((await volumes.list()).map(({ name }) => name), ["db", "empty"]);
    assert.throws(() => volumes.ensure("../x"), { code: "argument_invalid" });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a volume keeps its labels until others are given", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const volumes = new NamedVolumes(join(dir, "volumes"));
    const labels = async () => (await volumes.list()).map((volume) => volume.labels);
    await volumes.ensure("db");
    assert.deepEqual(await labels(), [{}]);
    await volumes.ensure("db", undefined, { labels: { team: "shop" } });
    await volumes.ensure("db", undefined, { labels: {} });
    assert.deepEqual(await labels(), [{ team: "shop" }]);
    await volumes.ensure("db", undefined, { labels: { tier: "1" } });
    const [{ name, labels: kept }] = await new NamedVolumes(join(dir, "volumes")).list();
    assert.deepEqual([name, kept], ["db", { tier: "1" }]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a volume is removed with its contents, and not while it is in use", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const root = join(dir, "volumes");
    const volumes = new NamedVolumes(root);
    await Deno.writeTextFile(join(await volumes.ensure("db"), "a"), "1");
    await Deno.mkdir(join(dir, "outside"));
    await Deno.symlink(join(dir, "outside"), join(root, "db/_data/out"));
    await Deno.writeTextFile(join(dir, "outside/kept"), "1");
    await assert.rejects(
      volumes.remove("db", () => {
        throw new Error("in use");
      }),
      /in use/,
    );
    assert.equal((await volumes.list()).length, 1);
    for (const name of ["other", "../outside", ".gone", ""]) {
      assert.equal(await volumes.remove(name, () => {}), false, name);
      assert.equal(await volumes.inspect(name), undefined, name);
    }
    assert.equal(await volumes.remove("db", () => {}), true);
    assert.deepEqual(await volumes.list(), []);
    assert.deepEqual(await Array.fromAsync(Deno.readDir(root)), []);
    assert.equal(await Deno.readTextFile(join(dir, "outside/kept")), "1");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
