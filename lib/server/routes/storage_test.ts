import assert from "node:assert/strict";
import type { GcResult, VerifyEvent } from "../../api/storage.ts";
import { SvcError } from "../../base/errors.ts";
import type { CollectOptions } from "../../store/gc/collect.ts";
import type { Upkeep } from "../../store/upkeep.ts";
import { collect, jsonLines, startTestServer } from "../testing.ts";

const RESULT: GcResult = {
  blobsDeleted: 2,
  bytesReclaimed: 2048,
  manifestsDeleted: 1,
  buildCacheBytesReclaimed: 0,
  durationMs: 5,
  blobsLeased: 0,
  uploadsExpired: 0,
};

function upkeep(asked: CollectOptions[], more: Partial<Upkeep> = {}): Upkeep {
  return {
    collect: (options = {}) => {
      asked.push(options);
      options.onProgress?.({ phase: "sweep", blobs: 10, blobsDeleted: 2 });
      return Promise.resolve(RESULT);
    },
    usage: () => Promise.reject(new Error("not asked for")),
    async *verify() {},
    scrub: () => assert.fail("not asked for"),
    scrubbed: () => Promise.resolve(undefined),
    ...more,
  };
}

Deno.test("gc: the result as JSON, or with progress as NDJSON; its query", async () => {
  const asked: CollectOptions[] = [];
  await using server = await startTestServer({ deps: { storage: upkeep(asked) } });
  const gc = `${server.base}/.svc/v1/gc`;
  assert.deepEqual(await (await fetch(gc, { method: "POST" })).json(), RESULT);
  const streamed = await fetch(`${gc}?dryRun=true&idle=1m30s`, {
    method: "POST",
    headers: { accept: "application/x-ndjson" },
  });
  assert.deepEqual(await collect(jsonLines(streamed)), [
    { type: "progress", phase: "sweep", blobs: 10, blobsDeleted: 2 },
    { type: "result", result: RESULT },
  ]);
  assert.deepEqual(asked.map(({ dryRun, idleMs }) => [dryRun, idleMs]), [
    [false, undefined],
    [true, 90_000],
  ]);
  for (const query of ["idle=soon", "idle=-1s", "dryRun=perhaps", "dryrun=1"]) {
    const refused = await fetch(`${gc}?${query}`, { method: "POST" });
    assert.deepEqual([refused.status, (await refused.json()).code], [400, "argument_invalid"]);
  }
});

Deno.test("gc: one under way is a conflict, told alike in both forms", async () => {
  const busy = () => Promise.reject(new SvcError("conflict", "Cannot collect garbage: busy"));
  const storage = upkeep([], { collect: busy });
  await using server = await startTestServer({ deps: { storage } });
  const gc = `${server.base}/.svc/v1/gc`;
  const plain = await fetch(gc, { method: "POST" });
  assert.deepEqual([plain.status, (await plain.json()).code], [409, "conflict"]);
  const streamed = await fetch(gc, {
    method: "POST",
    headers: { accept: "application/x-ndjson" },
  });
  const [event] = await collect(jsonLines<{ type: string; error: { code: string } }>(streamed));
  assert.deepEqual([event.type, event.error.code], ["error", "conflict"]);
});

Deno.test("storage: usage, and a check whose client may leave", async () => {
  const content = {
    repositories: 1,
    manifests: 2,
    tags: 3,
    blobs: 4,
    blobBytes: 5,
    copies: 0,
    copyBytes: 0,
    uploads: 6,
    uploadBytes: 7,
    quarantined: 0,
    quarantinedBytes: 0,
  };
  const left = Promise.withResolvers<void>();
  const storage = upkeep([], {
    usage: () => Promise.resolve(content),
    async *verify({ quarantine, signal } = {}) {
      assert.equal(quarantine, true);
      signal?.addEventListener("abort", () => left.resolve());
      for (let blobs = 1;; blobs++) {
        yield { type: "progress", blobs, bytes: blobs } satisfies VerifyEvent;
        await new Promise((resolve) => setTimeout(resolve, 1));
        signal?.throwIfAborted();
      }
    },
  });
  const kept = { bytes: 9, kinds: { snapshots: { count: 1, bytes: 9 } }, keepBytes: 10 };
  const buildCache = { usage: () => Promise.resolve(kept) };
  await using server = await startTestServer({ deps: { storage, buildCache } });
  const usage = await fetch(`${server.base}/.svc/v1/storage`);
  assert.deepEqual(await usage.json(), { content, buildCache: kept });
  const checked = await fetch(`${server.base}/.svc/v1/storage/verify?quarantine=true`, {
    method: "POST",
  });
  for await (const event of jsonLines<VerifyEvent>(checked)) {
    if (event.type === "progress" && event.blobs === 3) break;
  }
  await left.promise;
});
