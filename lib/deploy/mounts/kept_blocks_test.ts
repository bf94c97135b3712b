import assert from "node:assert/strict";
import type { CallerMount } from "../../api/caller_mounts.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { KeptBlocks, type KeptSettings } from "./kept_blocks.ts";

const SETTINGS: KeptSettings = { fileCache: false, fileCacheChunkSize: 1 << 20 };
const spec = (more: object = {}) => ({ name: "app", ...more }) as DeploySpec;
const NAME = "0f".repeat(32);
const CACHED: CallerMount = { target: "/a", kind: "folder", readOnly: true, cache: NAME };

Deno.test("kept: without a cache a mount is a plain one, and its caller is warned", async () => {
  const kept = await KeptBlocks.open(SETTINGS, "/data");
  assert.deepEqual(kept.how(CACHED, spec()), {});
  assert.match(kept.warning(CACHED)[0], /mount \/a: it is not cached/);
  assert.deepEqual(kept.warning({ target: "/a", kind: "folder" }), []);
});

Deno.test("kept: what is kept is found by the same identity with the same secret name alone", async () => {
  const base = await Deno.makeTempDir({ prefix: "svc-kept-" });
  try {
    const kept = await KeptBlocks.open(
      { ...SETTINGS, fileCache: true, fileCacheDir: `${base}/cache`, fileCacheMaxBytes: 5 },
      `${base}/data`,
    );
    const owner = (subject: string, cache = NAME) =>
      kept.how({ ...CACHED, cache }, spec({ origin: { subject } })).cache!.owner;
    const { cache } = kept.how(CACHED, spec());
    assert.equal(cache!.folder, `${base}/cache/svc-file-cache`);
    assert.equal((await Deno.stat(cache!.folder)).mode! & 0o777, 0o700);
    assert.deepEqual([cache!.chunkSize, cache!.maxBytes], [1 << 20, 5]);
    assert.equal(owner("ann"), owner("ann"));
    const others = [owner("bob"), owner("ann", "f0".repeat(32)), owner(""), cache!.owner];
    assert.ok(!others.includes(owner("ann")));
    // It is on the command line of a process, which any user of the host sees.
    assert.ok(!JSON.stringify(cache).includes(NAME));
    assert.deepEqual(kept.warning(CACHED), []);
    assert.deepEqual(kept.how({ target: "/a", kind: "folder", readOnly: true }, spec()), {});
    await Deno.chmod(cache!.folder, 0o711);
    const open = (dataDir: string) =>
      KeptBlocks.open({ ...SETTINGS, fileCache: true, fileCacheDir: `${base}/cache` }, dataDir);
    await assert.rejects(() => open(`${base}/data`), { code: "config_invalid" });
    await assert.rejects(() => open(base), /it is in the server's data directory/);
    await assert.rejects(() => open(`${base}/cache`), /it is in the server's data directory/);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});

Deno.test("kept: options of coherence are those of both ends; async is for one replica", async () => {
  const how = async (
    blockCoherence: string,
    async: CallerMount["async"],
    blockReadahead?: number,
  ) => {
    const kept = await KeptBlocks.open({ ...SETTINGS, blockCoherence, blockReadahead }, "/data");
    return kept.how({ target: "/a", kind: "folder", async }, spec()).async;
  };
  const none = { subhash: false, defer: false, subfill: false, readAhead: 0 };
  assert.deepEqual(await how("", ["subhash", "defer"]), none);
  assert.deepEqual(await how("subhash defer", []), none);
  assert.deepEqual(await how("defer,subfill", ["defer"], 65536), { ...none, defer: true });
  assert.deepEqual(await how("subhash", ["subfill"], 65536), { ...none, subhash: true });
  assert.deepEqual(await how("subfill", ["subfill"], 65536), {
    ...none,
    ...{ subhash: true, subfill: true, readAhead: 65536 },
  });
  const kept = await KeptBlocks.open(SETTINGS, "/data");
  const mounts: CallerMount[] = [{ target: "/a", kind: "folder", async: [] }];
  kept.require(spec(), mounts);
  kept.require(spec({ replicas: 1 }), mounts);
  kept.require(spec({ replicas: 2 }), [CACHED]);
  assert.throws(() => kept.require(spec({ replicas: 2 }), mounts), { code: "spec_invalid" });
});
