import assert from "node:assert/strict";
import { join } from "node:path";
import { openLog } from "./log.ts";

Deno.test("the agent's log: a server that says much does not fill the disk", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = join(folder, "agent.log");
    using log = await openLog(path);
    log("first");
    for (let line = 0; line < 300; line++) log("x".repeat(1e5));
    log("last\nof two");
    const text = await Deno.readTextFile(path);
    assert.ok(text.length < 1.1e6, `${text.length}`);
    assert.ok(text.split("\n").every((line) => line.length < 5000));
    assert.doesNotMatch(text, /first/);
    assert.match(text, / last\n {2}of two\n$/);
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
