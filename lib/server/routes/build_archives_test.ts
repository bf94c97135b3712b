import assert from "node:assert/strict";
import type { Builder } from "../../build/builder.ts";
import { Spool } from "../../build/export/spool.ts";
import { startTestServer } from "../testing.ts";

Deno.test("archives: sent for a build, taken once, gone after that", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-spool-" });
  try {
    using spool = await Spool.open(`${folder}/outputs`);
    const builder = { archives: spool } as unknown as Builder;
    await using server = await startTestServer({
      deps: {
        builder: () => Promise.resolve(builder),
        limits: { buildConcurrency: 1, maxBuildContextBytes: 300_000 },
      },
    });
    const base = `${server.base}/.svc/v1/build`;
    const send = (size: number) =>
      fetch(`${base}/inputs`, { method: "POST", body: new Uint8Array(size).fill(7) });
    const sent = await send(300_000);
    assert.equal(sent.status, 201);
    const { id, size } = await sent.json();
    assert.equal(size, 300_000);
    assert.deepEqual((await spool.items()).map((item) => [item.id, item.size, item.held]), [
      [id, 300_000, true],
    ]);
    const path = spool.hold(id)!;
    assert.equal((await Deno.stat(path)).size, size, "a build that reads it leaves it");
    const taken = await fetch(`${base}/outputs/${id}`);
    assert.equal(taken.headers.get("content-length"), "300000");
    assert.ok((await taken.bytes()).every((byte) => byte === 7));
    const again = await fetch(`${base}/outputs/${id}`);
    assert.equal((await again.json()).code, "not_found");
    assert.equal(spool.hold(id), undefined);
    const large = await send(300_001);
    assert.deepEqual([large.status, (await large.json()).code], [413, "too_large"]);
    assert.deepEqual(await spool.items(), [], "nothing of it is kept");
    const stray = await spool.put(new Blob(["x"]).stream(), new AbortController().signal);
    using later = await Spool.open(`${folder}/outputs`);
    assert.equal(await later.take(stray.id), undefined, "a restart clears them");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
