/** The rows of SPEC.md's "Client-side environment variables" that decide which server is spoken to, and as whom. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { svcFake } from "../../test/fixtures/cli.ts";

/** Two servers' worth of contexts in front of one that says who asked. */
async function fixture() {
  const folder = await Deno.makeTempDir();
  const seen: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    const { pathname } = new URL(request.url);
    seen.push(`${pathname.split("/")[1]} ${request.headers.get("authorization") ?? "nobody"}`);
    return Response.json([]);
  });
  const url = (name: string) => `http://127.0.0.1:${server.addr.port}/${name}`;
  const config = join(folder, "config.json");
  const contexts = { a: { server: url("a"), token: "ta" }, b: { server: url("b"), token: "tb" } };
  await Deno.writeTextFile(config, JSON.stringify({ "current-context": "a", contexts }), {
    mode: 0o600,
  });
  const project = join(folder, "project.json");
  await Deno.writeTextFile(project, JSON.stringify({ server: url("p"), token: "tp" }), {
    mode: 0o600,
  });
  return {
    url,
    project,
    folder,
    /** What the server saw of `svc ps`. */
    async ps(env: Record<string, string>, args: string[] = []) {
      seen.length = 0;
      const result = await svcFake(["ps", ...args], {
        env: { SVC_SERVER: "", SVC_CONFIG: config, ...env },
      });
      return { ...result, seen: seen.join() };
    },
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

Deno.test("SVC_CONFIG, SVC_CONTEXT, --context", async () => {
  await using at = await fixture();
  assert.equal((await at.ps({})).seen, "a Bearer ta");
  assert.equal((await at.ps({ SVC_CONTEXT: "b" })).seen, "b Bearer tb");
  assert.equal((await at.ps({ SVC_CONTEXT: "b" }, ["--context", "a"])).seen, "a Bearer ta");
  const unknown = await at.ps({ SVC_CONTEXT: "c" });
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /Cannot use context "c"/);
  const missing = await at.ps({
    SVC_CONFIG: join(at.folder, "none.yaml"),
    SVC_SERVER: at.url("x"),
  });
  assert.equal(missing.seen, "x nobody");
});

Deno.test("SVC_SERVER, SVC_HOST, SVC_TOKEN", async () => {
  await using at = await fixture();
  assert.equal((await at.ps({ SVC_SERVER: at.url("x") })).seen, "x nobody");
  assert.equal((await at.ps({ SVC_HOST: at.url("y") })).seen, "y nobody");
  assert.equal((await at.ps({ SVC_SERVER: at.url("x"), SVC_HOST: at.url("y") })).seen, "x nobody");
  assert.equal(
    (await at.ps({ SVC_SERVER: at.url("x") }, ["--server", at.url("z")])).seen,
    "z nobody",
  );
  assert.equal((await at.ps({ SVC_SERVER: at.url("a") })).seen, "a Bearer ta");
  assert.equal((await at.ps({ SVC_TOKEN: "env" })).seen, "a Bearer env");
  assert.equal((await at.ps({ SVC_SERVER: at.url("x"), SVC_TOKEN: "env" })).seen, "x Bearer env");
});

Deno.test("SVC_CONTEXT_FILE, --context-file, --no-context-file", async () => {
  await using at = await fixture();
  assert.equal((await at.ps({ SVC_CONTEXT_FILE: at.project })).seen, "p Bearer tp");
  assert.equal((await at.ps({}, ["--context-file", at.project])).seen, "p Bearer tp");
  const both = await at.ps({ SVC_CONTEXT_FILE: at.project }, ["--no-context-file"]);
  assert.equal(both.code, 2);
  assert.match(both.stderr, /Cannot use --no-context-file with --context-file/);
  const missing = await at.ps({ SVC_CONTEXT_FILE: join(at.folder, "none") });
  assert.equal(missing.code, 2);
  assert.match(missing.stderr, /there is no such file/);
});

Deno.test("SVC_TRUST_CONTEXT_FILE, --trust-context-file: warnings go to standard error", async () => {
  await using at = await fixture();
  const before = Deno.cwd();
  await Deno.copyFile(at.project, join(at.folder, "svc-context.json"));
  await Deno.chmod(join(at.folder, "svc-context.json"), 0o600);
  try {
    Deno.chdir(at.folder);
    const found = await at.ps({});
    assert.equal(found.seen, "a Bearer ta");
    assert.match(found.stderr, /^svc: warning: ignoring server and token of .*svc-context\.json/);
    assert.equal((await at.ps({ SVC_TRUST_CONTEXT_FILE: "1" })).seen, "p Bearer tp");
    assert.equal((await at.ps({}, ["--trust-context-file"])).seen, "p Bearer tp");
    assert.equal((await at.ps({}, ["--no-context-file"])).stderr, "");
  } finally {
    Deno.chdir(before);
  }
});

Deno.test("SVC_OUTPUT: plain, json; --output goes before it; another word is refused", async () => {
  await using at = await fixture();
  assert.equal((await at.ps({ SVC_OUTPUT: "json" })).stdout, "");
  assert.match((await at.ps({ SVC_OUTPUT: "plain" })).stdout, /^NAME /);
  assert.match((await at.ps({ SVC_OUTPUT: "json" }, ["--output", "plain"])).stdout, /^NAME /);
  const { code, stderr } = await at.ps({ SVC_OUTPUT: "xml" });
  assert.equal(code, 2);
  assert.match(stderr, /SVC_OUTPUT: "xml" is not one of auto, plain, fancy, json/);
});

Deno.test("SVC_TOKEN_CACHE: a word that is none of its modes", async () => {
  await using at = await fixture();
  const { code, stderr } = await at.ps({ SVC_TOKEN_CACHE: "disk" });
  assert.equal(code, 2);
  assert.match(stderr, /SVC_TOKEN_CACHE: "disk" is not one of auto, keyring, file, none/);
});
