/**
 * The soak of test/soak/registry_gc.ts, as long as a test may take: `SVC_TEST_SOAK_SECONDS` for each of
 * the two stores, 12 by default.
 */
import assert from "node:assert/strict";
import { missingS3, S3_COMMANDS, startS3 } from "../peers/s3.ts";
import { digestOf } from "../soak/clients.ts";
import { soak, type SoakOptions } from "../soak/registry_gc.ts";
import { e2eTest, startServer } from "./harness.ts";

const seconds = Number(Deno.env.get("SVC_TEST_SOAK_SECONDS") ?? 12);

/** A soak that did nothing proves nothing. */
async function soaked(options: Omit<SoakOptions, "seconds">): Promise<void> {
  const report = await soak({ seconds, ...options });
  const { pushes, mounts, deletes, pulls, collections, kills } = report;
  for (
    const [what, count] of Object.entries({ pushes, pulls, "mounts and deletes": mounts + deletes })
  ) {
    assert.ok(count > 3, `only ${count} ${what}`);
  }
  assert.ok(collections > 1, `${collections} collections`);
  assert.ok(kills > 0, "no kill");
}

e2eTest(
  "collections without pause and kill -9 lose nothing: a folder",
  {},
  () => soaked({ killEvery: 4 }),
);

e2eTest(
  "collections without pause and kill -9 lose nothing: two servers on one bucket",
  { commands: missingS3() === undefined ? [] : S3_COMMANDS },
  async () => {
    await using s3 = await startS3();
    await soaked({ storage: s3.location(), servers: 2, clients: 4, killEvery: 5, idle: "60s" });
  },
);

async function putBlob(url: string, text: string): Promise<void> {
  const bytes = new TextEncoder().encode(text);
  const stored = await fetch(`${url}/v2/stray/blobs/uploads/?digest=${digestOf(bytes)}`, {
    method: "POST",
    body: bytes,
  });
  await stored.body?.cancel();
  assert.equal(stored.status, 201);
}

e2eTest("svc gc and svc storage against a server that collects by itself too", {}, async () => {
  await using server = await startServer({ env: { SVC_GC_INTERVAL: "300ms" } });
  await putBlob(server.url, "a stray blob");
  // The one in the background may be under way.
  const gc = async (...args: string[]) => {
    for (;;) {
      const ended = await server.svc(["gc", ...args]);
      if (!/a collection is under way/.test(ended.stderr)) return ended;
    }
  };
  const kept = await gc();
  assert.match(kept.stdout, /^Deleted 0 blobs .*\n1 blob stays for pushes/);
  const usage = await server.svc(["storage", "usage", "--output", "json"]);
  assert.equal(JSON.parse(usage.stdout).content.blobs, 1);
  const verify = await server.svc(["storage", "verify"]);
  assert.match(verify.stdout, /^Checked 1 blobs .*: nothing wrong\.$/m);
  assert.equal(verify.code, 0);
  const gone = await gc("--idle", "0s");
  assert.match(gone.stdout, /^Deleted 1 blob \(12 B\) and 0 manifests/);
  await server.logged(/collected garbage/);
});
