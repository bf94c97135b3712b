import assert from "node:assert/strict";
import { join } from "node:path";
import { silent } from "../../base/log.ts";
import { sweepGoneServers } from "./gone_servers.ts";

Deno.test("what servers have left whose data is gone is removed; that of others, and of shared bridges, stays", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-gone-" });
  const servers = join(folder, "servers");
  const removed: string[] = [];
  const start = async (name: string, base: string) => {
    const dataDir = join(folder, name);
    await Deno.mkdir(dataDir);
    await sweepGoneServers({
      paths: { servers, dataDir, portChain: `SVC-PORTS-${name}` },
      base,
      log: silent,
      removeNetwork: ({ bridge }) => Promise.resolve(void removed.push(bridge)),
      host: {
        bridges: () => Promise.resolve(["eth0", "svc1", "svc-10-5-0", "svc-10-5-12", "svc-10-6-0"]),
        removePorts: (chain) => Promise.resolve(void removed.push(chain)),
      },
    });
  };
  try {
    await start("one", "10.5");
    await start("two", "10.6");
    await start("same", "10.6");
    await Deno.writeTextFile(join(servers, "other.json"), "{");
    assert.deepEqual(removed, []);
    await Deno.remove(join(folder, "one"));
    await Deno.remove(join(folder, "two"));
    await start("three", "10.4");
    assert.deepEqual(removed.toSorted(), [
      "SVC-PORTS-one",
      "SVC-PORTS-two",
      "svc-10-5-0",
      "svc-10-5-12",
    ]);
    removed.length = 0;
    await start("four", "10.7");
    assert.deepEqual(removed, [], "once");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
