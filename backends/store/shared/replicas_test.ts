/** Uploads whose requests reach several servers of one bucket in any order, some of which die. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import fc from "fast-check";
import type { Digest } from "../../../lib/oci/types.ts";
import { silent } from "../../../lib/base/log.ts";
import { Damage } from "../../../lib/store/damage.ts";
import { blobKey } from "../../../lib/store/keys.ts";
import { Uploads } from "../../../lib/store/uploads.ts";
import { MemoryBucket, MemoryService } from "../../../test/fixtures/memory_bucket.ts";
import { runs } from "../../../test/fixtures/property.ts";
import { openBucket } from "./store.ts";
import { PART } from "./upload_state.ts";

const BYTES = new Uint8Array(3 * PART);
for (let at = 0; at < BYTES.length; at += 65536) {
  crypto.getRandomValues(BYTES.subarray(at, at + 65536));
}

/** A server process: `kill` lets nothing more of it reach the bucket. */
async function server(service: MemoryService) {
  let dead = false;
  const bucket = new MemoryBucket(service, () => dead ? "before" : undefined);
  const store = await openBucket(bucket);
  return {
    uploads: new Uploads(store, new Damage(store, silent)),
    store,
    kill: () => void (dead = true),
  };
}

function body(from: number, to: number, breaks: boolean): ReadableStream<Uint8Array> {
  let at = from;
  return new ReadableStream({
    pull(controller) {
      if (at < to) controller.enqueue(BYTES.slice(at, at = Math.min(to, at + 500_000)));
      else if (breaks) controller.error(new Error("connection lost"));
      else controller.close();
    },
  });
}

const STEP = fc.record({
  server: fc.nat(2),
  size: fc.oneof(fc.constant(PART), fc.nat(PART + PART / 2), fc.nat(5000)),
  /** What happens to the server before it is asked, or to the connection. */
  fate: fc.constantFrom("none", "none", "none", "restart", "break", "kill"),
});

Deno.test("bucket: an upload's requests may reach any server of a bucket, and any may die", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(STEP, { minLength: 1, maxLength: 7 }), async (steps) => {
      const service = new MemoryService();
      const servers = [await server(service), await server(service), await server(service)];
      const { id } = await servers[0].uploads.start("a/b");
      let acknowledged = 0;
      for (const step of steps) {
        if (step.fate === "restart") servers[step.server] = await server(service);
        const { uploads, kill } = servers[step.server];
        const upload = await uploads.open("a/b", id);
        assert.ok(upload, "the upload is there");
        assert.ok(upload.offset >= acknowledged, `${upload.offset} of ${acknowledged}`);
        const from = upload.offset;
        const to = Math.min(BYTES.length, from + step.size);
        const appended = upload.append(body(from, to, step.fate === "break"), { at: from });
        if (step.fate === "kill") {
          kill();
          servers[step.server] = await server(service);
        }
        try {
          acknowledged = await appended;
          assert.equal(acknowledged, to);
        } catch (error) {
          if (step.fate !== "kill" && step.fate !== "break") throw error;
          // Broken off, it keeps what arrived; of a server that died only what was durable counts.
          if (step.fate === "break") acknowledged = to;
        }
      }
      const last = servers[steps.length % 3];
      const upload = (await last.uploads.open("a/b", id))!;
      const size = upload.offset;
      const bytes = BYTES.subarray(0, size);
      const digest: Digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
      await upload.commit(digest);
      const stored = await last.store.get(blobKey(digest));
      const hash = createHash("sha256");
      for await (const chunk of stored!.stream()) hash.update(chunk);
      assert.equal(`sha256:${hash.digest("hex")}`, digest);
      for (const { uploads } of servers) assert.equal(await uploads.open("a/b", id), undefined);
    }),
    runs(12),
  );
});
