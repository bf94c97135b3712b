import assert from "node:assert/strict";
import { isSmallTree } from "./small_tree.ts";

const LOOK = { contents: false };
const READ = { contents: true };

Deno.test("a tree is small as long as its entries and bytes are few", async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-small-" });
  try {
    await Deno.mkdir(`${root}/a/b`, { recursive: true });
    await Deno.writeTextFile(`${root}/a/b/file`, "text");
    assert.ok(isSmallTree(root, LOOK));
    assert.ok(isSmallTree(root, READ));
    await Deno.writeFile(`${root}/a/large`, new Uint8Array(600_000));
    assert.ok(isSmallTree(root, LOOK));
    assert.ok(!isSmallTree(root, READ));
    for (let n = 0; n < 65; n++) await Deno.writeTextFile(`${root}/a/b/${n}`, "");
    assert.ok(!isSmallTree(root, LOOK));
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("folders that lead nowhere but down are counted too", async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-small-" });
  try {
    await Deno.mkdir(root + "/d".repeat(70), { recursive: true });
    assert.ok(!isSmallTree(root, LOOK));
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
