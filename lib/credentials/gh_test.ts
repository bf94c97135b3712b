import assert from "node:assert/strict";
import { join } from "node:path";
import { ghCommand } from "./gh.ts";

Deno.test("SVC_GH_BIN: config.command of the spec, the variable, gh on PATH", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(join(folder, "gh"), "", { mode: 0o700 });
    await Deno.writeTextFile(join(folder, "other"), "", { mode: 0o700 });
    const env = { PATH: folder };
    const found = (name: string) => join(folder, name);
    assert.deepEqual(await ghCommand({ env }), {
      command: "gh",
      source: "default",
      found: found("gh"),
    });
    assert.deepEqual(await ghCommand({ ghBin: "other", env }), {
      command: "other",
      source: "SVC_GH_BIN",
      found: found("other"),
    });
    assert.deepEqual(await ghCommand({ configured: found("gh"), ghBin: "other", env }), {
      command: found("gh"),
      source: "config.command",
      found: found("gh"),
    });
    assert.deepEqual(await ghCommand({ env: {} }), { command: "gh", source: "default" });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
