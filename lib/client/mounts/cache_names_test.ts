import assert from "node:assert/strict";
import { cacheNames } from "./cache_names.ts";

Deno.test("cache names: one for a source, as long as the user's secret is there, and no other's", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-names-" });
  try {
    const env = { XDG_CONFIG_HOME: home };
    const names = await cacheNames(env);
    const one = await names("/a");
    assert.match(one, /^[0-9a-f]{64}$/);
    assert.equal(await (await cacheNames(env))("/a"), one);
    assert.notEqual(await names("/b"), one);
    const path = `${home}/svc/file-cache.key`;
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
    assert.ok(!(await Deno.readTextFile(path)).includes(one));
    await Deno.writeTextFile(path, "damaged");
    assert.notEqual(await (await cacheNames(env))("/a"), one);
    // Without a folder for the secret, each session has one of its own.
    assert.notEqual(await (await cacheNames({}))("/a"), await (await cacheNames({}))("/a"));
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
