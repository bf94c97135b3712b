import assert from "node:assert/strict";
import { createLogger } from "../../lib/base/log.ts";
import { createSnapshotter } from "../../lib/snapshot/create.ts";
import { closeIdleWorkers } from "../../lib/base/worker_pool.ts";
import { canMount } from "../../lib/sys/mount.ts";
import { mountsUnder } from "../../lib/sys/mountinfo.ts";
import { unmount } from "../../lib/sys/mount.ts";
import { amendContract } from "./snapshotter_amend.ts";
import { layersContract } from "./snapshotter_layers.ts";
import { make, snapshotterContract, type SnapshotterTest } from "./snapshotter.ts";
import { write } from "./snapshot_trees.ts";

const able = canMount();
if (!able && Deno.env.get("CI") === "true") {
  throw new Error("the snapshotters' tests need root (mount): run them as root, or unset CI");
}
if (!able) console.warn("snapshotters are not tested: this process may not mount");

const log = createLogger({ level: "error", format: "text", write: (line) => console.error(line) });

for (const driver of ["overlay", "native"] as const) {
  const test: SnapshotterTest = (title, fn) =>
    Deno.test({ name: `snapshotter ${driver}: ${title}`, ignore: !able }, async () => {
      const base = await Deno.makeTempDir({ prefix: "svc-snapshots-" });
      const open = () => createSnapshotter({ root: `${base}/data`, driver, log });
      try {
        await Deno.mkdir(`${base}/work`);
        const under = { snapshotter: await open(), folder: `${base}/work`, reopen: open };
        await fn(under);
      } finally {
        for (const { target } of await mountsUnder(base)) unmount(target, { detach: true });
        await Deno.remove(base, { recursive: true });
      }
    });
  snapshotterContract(test);
  layersContract(test);
  amendContract(test);
}

Deno.test({
  name: "snapshots that were deleted under a running server are made again",
  ignore: !able,
}, async () => {
  const base = await Deno.makeTempDir({ prefix: "svc-snapshots-" });
  try {
    await Deno.mkdir(`${base}/work`);
    const open = () => createSnapshotter({ root: `${base}/data`, driver: "overlay", log });
    const snapshotter = await open();
    const under = { snapshotter, folder: `${base}/work`, reopen: open };
    const build = async () => {
      await make(under, "below", undefined, (root) => write(`${root}/a`, "1"));
      await make(under, "above", "below", (root) => write(`${root}/b`, "2"));
    };
    await build();
    await make(under, "other", undefined, (root) => write(`${root}/c`, "3"));
    // The parent alone: what lies on it is lost too.
    const [folder] = [...Deno.readDirSync(`${base}/data/overlay/s`)].filter(({ name }) =>
      [...Deno.readDirSync(`${base}/data/overlay/s/${name}/fs`)].some((file) => file.name === "a")
    );
    await Deno.remove(`${base}/data/overlay/s/${folder.name}`, { recursive: true });
    assert.equal(await snapshotter.stat("above"), undefined);
    assert.equal(await snapshotter.stat("below"), undefined);
    assert.equal((await snapshotter.stat("other"))?.kind, "committed");
    await build();
    assert.equal((await snapshotter.stat("above"))?.kind, "committed");
    await Deno.remove(`${base}/data/overlay/s`, { recursive: true });
    assert.equal(await snapshotter.stat("above"), undefined);
    assert.equal(await snapshotter.stat("below"), undefined);
    await build();
    assert.equal((await snapshotter.stat("above"))?.kind, "committed");
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});

Deno.test.afterAll(closeIdleWorkers);
