import assert from "node:assert/strict";
import { ConfiguredAccess } from "../auth/access.ts";
import { createLogger } from "../base/log.ts";
import type { ListenAddress } from "../config/address.ts";
import { openAccess } from "./access.ts";
import { Lifecycle } from "./lifecycle.ts";
import { startServer } from "./run.ts";

Deno.test("a server that asks for no credential says so once where others reach it", async () => {
  const warnings = async (address: ListenAddress, access = openAccess) => {
    const lines: string[] = [];
    const log = createLogger({ level: "warn", format: "json", write: (line) => lines.push(line) });
    const listener = await startServer({
      ...{ address, access, log },
      routes: [],
      lifecycle: new Lifecycle(),
    });
    await listener.close();
    return lines;
  };
  for (const address of [{ port: 0 }, { hostname: "0.0.0.0", port: 0 }]) {
    const lines = await warnings(address);
    assert.equal(lines.length, 1);
    assert.match(lines[0], /no authentication is configured/);
    assert.match(lines[0], /SVC_AUTH_TOKEN.*SVC_ADDR=127\.0\.0\.1/);
    assert.deepEqual(await warnings(address, new ConfiguredAccess({})), []);
  }
  for (const hostname of ["127.0.0.1", "localhost"]) {
    assert.deepEqual(await warnings({ hostname, port: 0 }), []);
  }
});
