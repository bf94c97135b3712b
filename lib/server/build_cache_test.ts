import assert from "node:assert/strict";
import type { GcResult } from "../api/storage.ts";
import { SvcError } from "../base/errors.ts";
import { silent } from "../base/log.ts";
import type { Builder } from "../build/builder.ts";
import { createBuildCacheUpkeep } from "./build_cache.ts";

const RESULT: GcResult = {
  blobsDeleted: 1,
  bytesReclaimed: 2,
  manifestsDeleted: 3,
  buildCacheBytesReclaimed: 0,
  durationMs: 0,
  blobsLeased: 0,
  uploadsExpired: 0,
};

Deno.test("a collection prunes the build cache too, where there is one that can be opened", async () => {
  const asked: unknown[] = [];
  const builder = {
    cache: {
      usage: () => Promise.resolve({ bytes: 9, kinds: {} }),
      prune: (options: unknown) => {
        asked.push(options);
        return Promise.resolve({ bytes: 7, items: 1 });
      },
    },
  } as unknown as Builder;
  const { after, usage } = createBuildCacheUpkeep({
    builder: () => Promise.resolve(builder),
    log: silent,
  });
  const collect = after((_options?: { dryRun?: boolean }) => Promise.resolve(RESULT));
  const { buildCacheBytesReclaimed, blobsDeleted } = await collect({ dryRun: true });
  assert.deepEqual([buildCacheBytesReclaimed, blobsDeleted], [7, 1]);
  assert.deepEqual(asked, [{ dryRun: true, signal: undefined }]);
  assert.deepEqual(await usage(), { bytes: 9, kinds: {} });
  for (
    const none of [
      () => Promise.resolve(undefined),
      () => Promise.reject(new SvcError("unsupported", "Cannot mount: no")),
    ]
  ) {
    const without = createBuildCacheUpkeep({ builder: none, log: silent });
    assert.equal((await without.after(() => Promise.resolve(RESULT))()).bytesReclaimed, 2);
    assert.equal(await without.usage(), undefined);
  }
});
