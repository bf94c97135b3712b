import assert from "node:assert/strict";
import { join } from "node:path";
import { svcFake } from "../../test/fixtures/cli.ts";
import { testKey } from "../auth/ssh/testing.ts";
import { fingerprint as fingerprintOf } from "../client/ssh/public_key.ts";

Deno.test("profile: key-auth.name: auth keys add without FILE enrols the context's key under it", async () => {
  const folder = await Deno.makeTempDir();
  const key = join(folder, "id");
  const { line, blob } = testKey("ed25519");
  const fingerprint = fingerprintOf(blob);
  await Deno.writeTextFile(`${key}.pub`, `${line} a comment\n`);
  const bodies: Record<string, string>[] = [];
  const add = async (keyAuth: Record<string, string>, args: string[] = []) => {
    const config = join(folder, "config.json");
    const context = { "key-auth": { "identity-file": key, ...keyAuth } };
    await Deno.writeTextFile(config, JSON.stringify({ contexts: { a: context } }), { mode: 0o600 });
    return await svcFake(["auth", ...args, "keys", "add"], {
      env: { SVC_CONFIG: config, SVC_CONTEXT: "a", SVC_TOKEN: "admin" },
      handler: async (request) => {
        assert.equal(request.headers.get("authorization"), "Bearer admin");
        const body = await request.json();
        bodies.push(body);
        return Response.json({ ...body, fingerprint });
      },
    });
  };
  try {
    const named = await add({ name: "alice" });
    assert.equal(named.code, 0, named.stderr);
    assert.equal(named.stdout, `${fingerprint} alice\n`);
    assert.equal(bodies.pop()!.publicKey, line.split(" ").slice(0, 2).join(" "));
    assert.equal((await add({})).stdout, `${fingerprint} ${fingerprint}\n`);
    assert.equal(
      (await add({ name: "alice" }, ["--name", "bob"])).stdout,
      `${fingerprint} bob\n`,
    );
    await Deno.remove(`${key}.pub`);
    const gone = await add({});
    assert.equal(gone.code, 2);
    assert.match(gone.stderr, /Cannot read identity file .*id: there is no such file/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
