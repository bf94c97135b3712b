import assert from "node:assert/strict";
import { join } from "node:path";
import { validateDeploySpec } from "../api/deploy_spec_parse.ts";
import { JsonRecords } from "./json_records.ts";
import { emptyRecord } from "./record.ts";

Deno.test("records: what a crash left of a write is gone at the next start", async () => {
  const root = await Deno.makeTempDir();
  try {
    const store = new JsonRecords(root);
    await store.save(emptyRecord(validateDeploySpec({ name: "web", image: "app:v1" })));
    await Deno.writeTextFile(join(root, "web.json.tmp-1-0-abcdef12"), '{"spec":{"env":');
    assert.deepEqual((await store.load()).map(({ name }) => name), ["web"]);
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name), ["web.json"]);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
