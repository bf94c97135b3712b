/** The first start as scripts/svc.service has it: with a credential that nobody has to think of. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { e2eTest, startServer } from "./harness.ts";

/** `Environment=` lines of the unit, as systemd reads them, with its folders below `root`. */
async function unitEnvironment(root: string): Promise<Record<string, string>> {
  const unit = await Deno.readTextFile(
    join(import.meta.dirname!, "../../scripts/svc.service"),
  );
  // The settings file is read after them: what it says wins.
  assert(unit.lastIndexOf("\nEnvironment=") < unit.indexOf("\nEnvironmentFile=-/etc/svc/svc.env"));
  return Object.fromEntries(
    [...unit.matchAll(/^Environment=(\w+)=(.*)$/gm)].map(([, name, value]) => [
      name,
      value.replace(/^\/var\//, `${root}/`),
    ]),
  );
}

e2eTest("the service starts with a token of its own, which svc login takes", {}, async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-e2e-first-" });
  try {
    const { SVC_AUTH_TOKEN_FILE } = await unitEnvironment(root);
    await using server = await startServer({ env: { SVC_AUTH_TOKEN_FILE } });
    assert.equal((await fetch(`${server.url}/v2/`)).status, 401);
    const token = await Deno.readTextFile(SVC_AUTH_TOKEN_FILE);
    assert.equal((await Deno.stat(SVC_AUTH_TOKEN_FILE)).mode! & 0o777, 0o600);
    await server.logged(/svc login --token - < /);
    assert(!server.log().includes(token.trim()));
    const env = { SVC_CONFIG: `${root}/config.yaml` };
    const before = await server.svc(["ps"], { env });
    assert.notEqual(before.code, 0);
    const login = await server.svc(["login", "--token", "-"], { env, stdin: token });
    assert.equal(login.code, 0, login.stderr);
    const after = await server.svc(["ps"], { env });
    assert.equal(after.code, 0, after.stderr);
    await server.restart();
    assert.equal(await Deno.readTextFile(SVC_AUTH_TOKEN_FILE), token);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
