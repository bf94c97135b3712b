import assert from "node:assert/strict";
import { join } from "node:path";
import { NetworkTable } from "./networks.ts";

Deno.test("a network may be called as what every object has", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-networks-" });
  try {
    const table = new NetworkTable(join(folder, "networks.json"), "240.9");
    for (const [at, name] of ["constructor", "toString", "valueOf"].entries()) {
      assert.equal(await table.index(name), at + 1);
      assert.equal(await table.index(name), at + 1, "it keeps its index");
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
