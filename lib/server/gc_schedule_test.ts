import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { createLogger } from "../base/log.ts";
import { scheduleGc } from "./gc_schedule.ts";

const RESULT = {
  blobsDeleted: 0,
  bytesReclaimed: 0,
  manifestsDeleted: 0,
  buildCacheBytesReclaimed: 0,
  durationMs: 1,
  blobsLeased: 0,
  uploadsExpired: 0,
};

Deno.test("scheduled collections: again and again, also after failures, until stopped in the middle", async () => {
  const lines: string[] = [];
  const log = createLogger({ level: "info", format: "json", write: (line) => lines.push(line) });
  const running = Promise.withResolvers<void>();
  let calls = 0;
  const schedule = scheduleGc({
    intervalMs: 2,
    log,
    collect: async ({ signal }) => {
      if (++calls === 1) throw new SvcError("conflict", "somebody asked for one");
      if (calls === 2) throw new Error("the disk is tired");
      if (calls === 3) return RESULT;
      running.resolve();
      return await new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason))
      );
    },
  });
  await running.promise;
  await schedule[Symbol.asyncDispose]();
  assert.equal(calls, 4);
  const said = lines.map((line) => JSON.parse(line)).map(({ level, msg }) => [level, msg]);
  assert.deepEqual(said, [
    ["error", "garbage was not collected"],
    ["info", "collected garbage"],
  ]);
});
