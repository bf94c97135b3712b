import assert from "node:assert/strict";
import { join } from "node:path";
import { secretVariables } from "./secret_env.ts";

async function place() {
  const folder = await Deno.makeTempDir();
  const bundle = join(folder, "web-0-a");
  const values = join(folder, "variables.json");
  await Deno.mkdir(bundle);
  const plain = JSON.stringify({ process: { env: ["PATH=/bin", "TOKEN=old"] } });
  await Deno.writeTextFile(join(bundle, "config.json"), plain);
  await Deno.writeTextFile(values, JSON.stringify({ TOKEN: "s=cret\n2", MORE: "" }));
  const read = async () => JSON.parse(await Deno.readTextFile(join(bundle, "config.json")));
  const names = () => [...Deno.readDirSync(folder), ...Deno.readDirSync(bundle)].map((e) => e.name);
  return {
    ...{ bundle, values, read, names },
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

Deno.test("secret variables: in the document while the container is made, and at no other time", async () => {
  await using at = await place();
  const before = at.names().sort();
  const plain = await at.read();
  {
    await using _variables = await secretVariables(at.bundle, at.values);
    assert.deepEqual((await at.read()).process.env, ["PATH=/bin", "TOKEN=s=cret\n2", "MORE="]);
    const path = await Deno.realPath(join(at.bundle, "config.json"));
    assert.ok(!path.startsWith(`${at.bundle}/`), "it is beside the values, not in the bundle");
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
  }
  assert.deepEqual(await at.read(), plain);
  assert.deepEqual(at.names().sort(), before);
});

Deno.test("secret variables: after a killed process the document is the plain one again", async () => {
  await using at = await place();
  const plain = await at.read();
  await secretVariables(at.bundle, at.values);
  {
    await using _again = await secretVariables(at.bundle, at.values);
    assert.equal((await at.read()).process.env.length, 3);
  }
  assert.deepEqual(await at.read(), plain);
});

Deno.test("secret variables: without the values nothing is started", async () => {
  await using at = await place();
  await Deno.remove(at.values);
  await assert.rejects(secretVariables(at.bundle, at.values), { code: "conflict" });
  assert.equal(await secretVariables(at.bundle, undefined), undefined);
});
