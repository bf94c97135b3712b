import assert from "node:assert/strict";
import { CacheMounts } from "../solve/cache_mounts.ts";
import { closeIdleWorkers } from "../../base/worker_pool.ts";
import type { SnapshotInfo, Snapshotter } from "../../snapshot/snapshotter.ts";
import type { CacheRecords } from "../solve/records.ts";
import { BuildCache } from "./cache.ts";
import type { CacheItem, Shelf } from "./shelf.ts";
import { SnapshotShelf } from "./snapshots.ts";

function shelfOf(kind: string, items: CacheItem[], removed: string[]): Shelf {
  return {
    kind,
    items: () => Promise.resolve(items.filter(({ id }) => !removed.includes(id))),
    remove: (id) => {
      if (id === "busy") return Promise.resolve(false);
      removed.push(id);
      return Promise.resolve(true);
    },
  };
}

Deno.test("pruning: stale first, then the least recently used of all kinds, until it fits", async () => {
  const removed: string[] = [];
  const shelves = [
    shelfOf("snapshots", [
      { id: "leaf", size: 10, used: 5, order: 1 },
      { id: "root", size: 10, used: 5, order: 0 },
      { id: "new", size: 10, used: 9 },
      { id: "stale", size: 10, used: 10, stale: true },
      { id: "held", size: 10, used: 1, held: true },
    ], removed),
    shelfOf("cacheMounts", [
      { id: "mount", size: 10, used: 6 },
      { id: "busy", size: 10, used: 2 },
    ], removed),
  ];
  const cache = new BuildCache(shelves, 35);
  assert.deepEqual(await cache.usage(), {
    bytes: 70,
    kinds: { snapshots: { count: 5, bytes: 50 }, cacheMounts: { count: 2, bytes: 20 } },
    keepBytes: 35,
  });
  assert.deepEqual(await cache.prune({ dryRun: true }), { bytes: 40, items: 4 });
  assert.deepEqual(removed, []);
  assert.deepEqual(await cache.prune(), { bytes: 40, items: 4 });
  assert.deepEqual(removed, ["stale", "leaf", "root", "mount"]);
  assert.deepEqual(await cache.prune(), { bytes: 0, items: 0 });
  removed.length = 0;
  assert.deepEqual(await new BuildCache(shelves, undefined).prune(), { bytes: 10, items: 1 });
  assert.deepEqual(removed, ["stale"], "without a ceiling only what is of no use goes");
});

Deno.test("snapshots: what workloads stand on is not counted, what lies on others goes first", async () => {
  const info = (name: string, more: Partial<SnapshotInfo>): SnapshotInfo => ({
    name,
    kind: "committed",
    size: 100,
    created: new Date(0),
    used: new Date(0),
    names: [name],
    ...more,
  });
  const all = [
    info("sha256:a", {}),
    info("sha256:b", { parent: "sha256:a" }),
    info("bare-x", { kind: "active", parent: "sha256:b", names: [] }),
    info("sha256:base", { used: new Date(1) }),
    info("build-1", { parent: "sha256:base", used: new Date(7), names: ["build-1", "sha256:c"] }),
    info("sha256:c", { parent: "sha256:base", names: ["build-1", "sha256:c"] }),
    info("build-2", { parent: "build-1", used: new Date(3) }),
    info("build-lost", {}),
    info("build-run", { kind: "active", parent: "build-2", names: [] }),
  ];
  const shelf = new SnapshotShelf({
    async *list() {
      yield* all;
    },
  } as unknown as Snapshotter, {
    count: (name: string) => name === "build-lost" ? 0 : 1,
  } as unknown as CacheRecords);
  const items = await shelf.items();
  assert.deepEqual(
    items.map(({ id, used, order, held, stale }) => [id, used, order, held, stale]),
    [
      ["sha256:base", 7, 0, true, false],
      ["build-1", 7, 1, true, false],
      ["build-2", 3, 2, true, false],
      ["build-lost", 0, 0, false, true],
    ],
  );
});

Deno.test("cache mounts: counted on disk, kept while held, gone after a crash in between", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-cache-" });
  try {
    const mount = {
      type: "cache" as const,
      id: "go",
      from: "scratch" as const,
      source: "/",
      target: "/c",
      readOnly: false,
      mode: 0o755,
      uid: Deno.uid()!,
      gid: Deno.gid()!,
      sharing: "shared" as const,
    };
    const mounts = new CacheMounts(folder);
    const held = await mounts.hold(mount, undefined);
    await Deno.writeFile(`${held.path}/data`, new Uint8Array(100_000));
    const [item] = await mounts.items();
    assert.equal(item.held, true);
    assert.equal(await mounts.remove(item.id), false);
    held[Symbol.dispose]();
    const [idle] = await mounts.items();
    assert.equal(idle.held, false);
    assert.ok(idle.size >= 100_000 && idle.size < 150_000, `${idle.size}`);
    const again = new CacheMounts(folder);
    assert.equal((await again.items())[0].size, idle.size);
    assert.equal(await again.remove(idle.id), true);
    assert.deepEqual(await again.items(), []);
    await Deno.mkdir(`${folder}/trash/half`);
    await Deno.mkdir(`${idle.id.split("/")[0]}`.replace(/^/, `${folder}/`) + "/shared.tmp-1-a-b");
    await again.recover();
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name), [
      idle.id.split("/")[0],
    ]);
    using next = await again.hold(mount, undefined);
    assert.deepEqual([...Deno.readDirSync(next.path)], []);
  } finally {
    closeIdleWorkers();
    await Deno.remove(folder, { recursive: true });
  }
});
