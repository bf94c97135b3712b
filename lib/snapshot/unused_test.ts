import assert from "node:assert/strict";
import { silent } from "../base/log.ts";
import { createSnapshotter } from "./create.ts";
import { pruneUnused } from "./unused.ts";

const open = (root: string) => createSnapshotter({ root, driver: "native", log: silent });

async function withTrees(fn: (root: string) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "svc-unused-" });
  try {
    await fn(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const named = async (snapshotter: Awaited<ReturnType<typeof open>>) =>
  (await Array.fromAsync(snapshotter.list())).map(({ name }) => name).sort();

Deno.test("unused snapshots go, with those below them; what a container lies on, or somebody holds, stays", () =>
  withTrees(async (root) => {
    const snapshotter = await open(root);
    const layer = async (name: string, parent?: string) =>
      await snapshotter.commit(await snapshotter.prepare(`make-${name}`, parent), name);
    await layer("base");
    await layer("app", "base");
    await layer("old", "base");
    await layer("older", "old");
    await layer("alone");
    await snapshotter.prepare("deploy-web", "app");
    await layer("held");
    using use = snapshotter.use();
    await snapshotter.touch("held");
    assert.equal((await pruneUnused(snapshotter, { dryRun: true })).items, 3);
    assert.equal((await named(snapshotter)).length, 7);
    assert.equal((await pruneUnused(snapshotter)).items, 3);
    assert.deepEqual(await named(snapshotter), ["app", "base", "deploy-web", "held"]);
    use[Symbol.dispose]();
    assert.equal((await pruneUnused(snapshotter)).items, 1);
    assert.equal((await pruneUnused(snapshotter)).items, 0);
  }));

Deno.test("a layer that a killed server was unpacking is gone at the next start; a container's tree is not", () =>
  withTrees(async (root) => {
    const killed = await open(root);
    await killed.commit(await killed.prepare("make"), "base");
    await killed.prepare("unpack-1", "base");
    await killed.prepare("deploy-web", "base");
    assert.deepEqual(await named(await open(root)), ["base", "deploy-web"]);
  }));
