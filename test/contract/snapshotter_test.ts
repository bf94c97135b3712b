import { createLogger } from "../../lib/base/log.ts";
import { createSnapshotter } from "../../lib/snapshot/create.ts";
import { closeIdleWorkers } from "../../lib/base/worker_pool.ts";
import { canMount } from "../../lib/sys/mount.ts";
import { mountsUnder } from "../../lib/sys/mountinfo.ts";
import { unmount } from "../../lib/sys/mount.ts";
import { amendContract } from "./snapshotter_amend.ts";
import { layersContract } from "./snapshotter_layers.ts";
import { snapshotterContract, type SnapshotterTest } from "./snapshotter.ts";

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

Deno.test.afterAll(closeIdleWorkers);
