import assert from "node:assert/strict";
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { readDockerCredentials } from "./credentials.ts";

async function withConfig(config: unknown, work: (path: string, dir: string) => Promise<void>) {
  const dir = await Deno.makeTempDir({ prefix: "svc-credentials-" });
  try {
    const path = join(dir, "config.json");
    await Deno.writeTextFile(path, typeof config === "string" ? config : JSON.stringify(config));
    await work(path, dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("credentials: entries of auths, under each key docker writes", async () => {
  const auths = {
    "r.example:5000": { auth: btoa("user:pa:ss") },
    "https://s.example": { auth: btoa("s:t"), identitytoken: "id" },
    "https://index.docker.io/v1/": { username: "hub", password: "secret" },
    "broken.example": { auth: "%%%" },
    "empty.example": {},
  };
  await withConfig({ auths }, async (path) => {
    assert.deepEqual(await readDockerCredentials(path, "r.example:5000"), {
      username: "user",
      password: "pa:ss",
    });
    assert.deepEqual(await readDockerCredentials(path, "s.example"), { identityToken: "id" });
    assert.deepEqual(await readDockerCredentials(path, "docker.io"), {
      username: "hub",
      password: "secret",
    });
    for (const host of ["r.example", "broken.example", "empty.example", "none.example"]) {
      assert.equal(await readDockerCredentials(path, host), undefined, host);
    }
  });
});

Deno.test("credentials: a missing file is not a login; a malformed one is named without its text", async () => {
  assert.equal(await readDockerCredentials("/nonexistent/config.json", "x"), undefined);
  await withConfig('{"auths": {"x": {"auth": "c2VjcmV0"', async (path) => {
    await assert.rejects(readDockerCredentials(path, "x"), (error) => {
      assert.ok(error instanceof SvcError && error.code === "config_invalid");
      assert.ok(error.message.includes(path));
      assert.ok(!String(error.stack).includes("c2VjcmV0"));
      return true;
    });
  });
});

Deno.test("credentials: helpers are asked with the host on standard input", async () => {
  const config = {
    credHelpers: { "h.example": "fake", "t.example": "fake", "none.example": "fake" },
    credsStore: "fake",
    auths: { "gone.example": { auth: btoa("a:b") } },
  };
  await withConfig(config, async (path, dir) => {
    const helper = join(dir, "docker-credential-fake");
    await Deno.writeTextFile(
      helper,
      `#!/bin/sh
[ "$1" = get ] || exit 9
case $(cat) in
h.example) echo '{"ServerURL":"h","Username":"u","Secret":"s"}' ;;
t.example) echo '{"Username":"<token>","Secret":"idt"}' ;;
store.example) echo '{"Username":"st","Secret":"ore"}' ;;
crash.example) echo boom >&2; exit 3 ;;
*) echo 'credentials not found in native keychain'; exit 1 ;;
esac
`,
    );
    await Deno.chmod(helper, 0o755);
    const before = Deno.env.get("PATH")!;
    Deno.env.set("PATH", `${dir}:${before}`);
    try {
      const ask = (host: string) => readDockerCredentials(path, host);
      assert.deepEqual(await ask("h.example"), { username: "u", password: "s" });
      assert.deepEqual(await ask("t.example"), { identityToken: "idt" });
      assert.deepEqual(await ask("store.example"), { username: "st", password: "ore" });
      assert.deepEqual(await ask("gone.example"), { username: "a", password: "b" });
      assert.equal(await ask("none.example"), undefined);
      await assert.rejects(ask("crash.example"), /docker-credential-fake exited with 3/);
    } finally {
      Deno.env.set("PATH", before);
    }
  });
});
