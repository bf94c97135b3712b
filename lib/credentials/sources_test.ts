/** Every kind of source, on this machine. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { CredentialSource } from "../api/deploy_spec.ts";
import { openSources } from "./kinds.ts";
import type { Surroundings } from "./source_kind.ts";

const { signal } = new AbortController();
const SECRET = "s3cr3t-of-the-caller";

async function inFolder(
  work: (
    folder: string,
    make: (source: Omit<CredentialSource, "name">) => Promise<Record<string, string>>,
    told: string[],
    around: Surroundings,
  ) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-sources-" });
  const told: string[] = [];
  const env = { HOME: folder, TOKEN: SECRET, PATH: Deno.env.get("PATH") };
  const around = { env, folder, notice: (text: string) => void told.push(text) };
  const make = async (source: Omit<CredentialSource, "name">) => {
    const sources = openSources([{ name: "c", ...source }], around);
    return (await sources.get("c")!.get(signal)).values;
  };
  try {
    await work(folder, make, told, around);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("sources: static, env, file", () =>
  inFolder(async (folder, make) => {
    assert.deepEqual(await make({ backend: "static", config: { a: "b" } }), { a: "b" });
    assert.deepEqual(await make({ backend: "env", config: { t: "TOKEN" } }), { t: SECRET });
    await assert.rejects(make({ backend: "env", config: { t: "NONE" } }), {
      message: "Cannot make credential c: the variable NONE is not set",
    });
    await Deno.writeTextFile(join(folder, "token"), `${SECRET}\n`);
    for (const path of ["token", "~/token", join(folder, "token")]) {
      assert.deepEqual(await make({ backend: "file", config: { path } }), { value: SECRET });
    }
    await assert.rejects(
      make({ backend: "file", config: { path: "none" } }),
      /there is no .*\/none$/,
    );
    await assert.rejects(make({ backend: "file", config: { path: "." } }), /is no file of up to/);
  }));

Deno.test("sources: exec runs the caller's shell, whose words stay at the caller", () =>
  inFolder(async (_folder, make, told) => {
    const exec = (command: string, more: Record<string, string> = {}) =>
      make({ backend: "exec", config: { command, ...more } });
    assert.deepEqual(await exec("printf 'a %s' b"), { value: "a b" });
    assert.deepEqual(await exec(`echo '{"a":"b"}'`, { format: "json" }), { a: "b" });
    await assert.rejects(exec(`echo ${SECRET} >&2; exit 3`), {
      message: "Cannot make credential c: its program ended with 3",
    });
    assert.match(told.join(), new RegExp(SECRET));
    await assert.rejects(exec("true", { format: "xml" }), /config.format is "xml"/);
  }));

Deno.test("sources: gh by SVC_GH_BIN, unless config.command says otherwise", () =>
  inFolder(async (folder, make, _told, around) => {
    const tool = async (name: string) => {
      const path = join(folder, name);
      await Deno.writeTextFile(path, `#!/bin/sh\necho "${name}:$*"\n`.replace("$*", "$4"), {
        mode: 0o700,
      });
      return path;
    };
    around.ghBin = await tool("by-variable");
    const host = "code.example";
    assert.deepEqual(await make({ backend: "gh", config: { host } }), {
      token: `by-variable:${host}`,
    });
    const command = await tool("by-config");
    assert.deepEqual(await make({ backend: "gh", config: { host, command } }), {
      token: `by-config:${host}`,
    });
    around.ghBin = join(folder, "gone");
    await assert.rejects(make({ backend: "gh" }), /gone \(SVC_GH_BIN\) cannot be run/);
  }));

Deno.test("sources: logins of LLM tools; what renews a login stays", () =>
  inFolder(async (folder, make) => {
    const write = async (path: string, content: unknown) => {
      await Deno.mkdir(join(folder, path, ".."), { recursive: true });
      await Deno.writeTextFile(join(folder, path), JSON.stringify(content));
    };
    const later = Date.now() + 3_600_000;
    const refreshToken = "must-stay";
    await write(".claude/.credentials.json", {
      claudeAiOauth: { accessToken: "one", refreshToken, expiresAt: later },
    });
    assert.deepEqual(await make({ backend: "claude" }), { token: "one" });
    await write(".codex/auth.json", {
      tokens: { access_token: "two", account_id: "me", refresh_token: refreshToken },
    });
    assert.deepEqual(await make({ backend: "codex" }), { token: "two", accountId: "me" });
    await write(".gemini/oauth_creds.json", {
      ...{ access_token: "three", refresh_token: refreshToken, expiry_date: later },
    });
    assert.deepEqual(await make({ backend: "gemini" }), { token: "three" });
    await write(".gemini/oauth_creds.json", { access_token: "three", expiry_date: 1 });
    await assert.rejects(make({ backend: "gemini" }), {
      message: /has ended$/,
      help: /use gemini once/,
    });
    await write(".codex/auth.json", {});
    await assert.rejects(make({ backend: "codex" }), /auth\.json has no login$/);
    await Deno.writeTextFile(join(folder, ".codex/auth.json"), `{"x": ${SECRET}`);
    await assert.rejects(make({ backend: "codex" }), /auth\.json is no JSON$/);
  }));

Deno.test("sources: what a spec may not say", () => {
  const around = { env: {}, folder: "/", notice: () => {} };
  const wrong: [CredentialSource, RegExp][] = [
    [{ name: "c" }, /sources\[0\]\.backend: required; c is no kind/],
    [{ name: "c", backend: "vault" }, /sources\[0\]\.backend: expected one of static, env/],
    [{ name: "c", backend: "exec" }, /sources\[0\]\.config\.command: required/],
    [{ name: "c", backend: "gh", config: { hots: "x" } }, /config\.hots: expected one of host/],
    [{ name: "c", backend: "static" }, /sources\[0\]\.config: required/],
    [{ name: "gh", ttl: "10ms" }, /sources\[0\]\.ttl: expected at least 1s/],
  ];
  for (const [source, why] of wrong) {
    assert.throws(() => openSources([source], around), { code: "spec_invalid", message: why });
  }
});
