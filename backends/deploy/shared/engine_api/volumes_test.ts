import assert from "node:assert/strict";
import { scriptedDaemon } from "../../../../lib/docker/testing.ts";
import { SERVER } from "./labels.ts";
import { ensureVolume } from "./volumes.ts";

Deno.test("volumes: no deployment gets one of the builder's names", async () => {
  await using daemon = await scriptedDaemon((call) =>
    call.json({ Name: "v", Labels: { [SERVER]: "/data" } })
  );
  const ensure = (name: string) => ensureVolume(daemon.client, "/data", { name, target: "/v" });
  for (const name of ["svc-builder-cache", "svc-builder", "svc-builder-other"]) {
    await assert.rejects(ensure(name), { code: "conflict", message: /kept for the builder/ });
  }
  assert.deepEqual(daemon.lines, []);
  await ensure("svc-cache");
});
