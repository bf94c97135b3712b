import assert from "node:assert/strict";
import { join } from "node:path";
import { validateDeploySpec } from "../../api/deploy_spec_parse.ts";
import { emptyRecord, RecordStore } from "./record.ts";

Deno.test("records: what a crash left of a write is gone at the next start", async () => {
  const root = await Deno.makeTempDir();
  try {
    const store = new RecordStore(root);
    await store.save(emptyRecord(validateDeploySpec({ name: "web", image: "app:v1" })));
    await Deno.writeTextFile(join(root, "web.json.tmp-1-0-abcdef12"), '{"spec":{"env":');
    assert.deepEqual((await store.load()).map(({ name }) => name), ["web"]);
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name), ["web.json"]);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("records: one of an earlier version has its ports for all replicas", async () => {
  const root = await Deno.makeTempDir();
  try {
    const store = new RecordStore(root);
    const port = { hostIP: "0.0.0.0", host: 80, container: 8080, protocol: "tcp" };
    const instances = [0, 1].map((replica) => ({
      replica,
      phase: "ready",
      ports: replica === 0 ? [port] : [],
      published: replica === 0,
    }));
    const record = {
      ...emptyRecord(validateDeploySpec({ name: "web", image: "app:v1" })),
      instances,
    };
    await Deno.writeTextFile(join(root, "web.json"), JSON.stringify(record));
    const [{ instances: loaded }] = await store.load();
    assert.deepEqual(loaded.map(({ ports }) => ports), [[port], [port]]);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
