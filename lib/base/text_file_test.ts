import assert from "node:assert/strict";
import { join } from "node:path";
import { readTextFile } from "./text_file.ts";

Deno.test("a text file of somebody else: up to a size, and no device", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = join(folder, "a");
    const text = "größe".repeat(20_000);
    await Deno.writeTextFile(path, text);
    assert.equal(await readTextFile(path, 200_000), text);
    await assert.rejects(readTextFile(path, 1024), /it has more than 1\.0 KiB/);
    await assert.rejects(readTextFile("/dev/zero", 1024), /it is no regular file/);
    await assert.rejects(readTextFile("/dev/zero", 1024, { any: true }), /it has more than/);
    assert.equal(await readTextFile("/dev/null", 1024, { any: true }), "");
    await assert.rejects(readTextFile(folder, 1024), Deno.errors.IsADirectory);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
