/** SVC_VIA_SERVER, SVC_CONDUIT and SVC_GH_BIN: checked, shown, and told plainly where nothing reads them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { svcFake } from "../../test/fixtures/cli.ts";

const answer = () => Response.json({ version: "1", identity: { subject: "me", scopes: [] } });

async function fixture(context: Record<string, unknown> = {}) {
  const folder = await Deno.makeTempDir();
  const config = join(folder, "config.json");
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answer);
  const url = `http://127.0.0.1:${server.addr.port}`;
  await Deno.writeTextFile(
    config,
    JSON.stringify({ "current-context": "a", contexts: { a: { server: url, ...context } } }),
    { mode: 0o600 },
  );
  return {
    folder,
    run: (args: string[], env: Record<string, string> = {}) =>
      svcFake(args, { env: { SVC_SERVER: "", SVC_CONFIG: config, ...env } }),
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

Deno.test("SVC_VIA_SERVER: flag, variable, profile, default; shown by doctor and config view --merge", async () => {
  await using at = await fixture({ "via-server": false });
  const streams = async (args: string[], env?: Record<string, string>) =>
    /^.*workload streams: .*$/m.exec((await at.run(["doctor", ...args], env)).stdout)?.[0];
  assert.match(
    (await streams([]))!,
    /^ok .*via-server \(context a\) matters in a cluster profile only/,
  );
  assert.match((await streams([], { SVC_VIA_SERVER: "1" }))!, /\(SVC_VIA_SERVER\)/);
  assert.match(
    (await streams(["--no-via-server"], { SVC_VIA_SERVER: "1" }))!,
    /\(--no-via-server\)/,
  );
  const view = async (env: Record<string, string>) =>
    JSON.parse((await at.run(["config", "view", "--merge", "--output", "json"], env)).stdout);
  assert.equal((await view({}))["via-server"], false);
  assert.equal((await view({ SVC_VIA_SERVER: "true" }))["via-server"], true);
  await using none = await fixture();
  assert.ok(!(await none.run(["doctor"])).stdout.includes("workload streams"));
  const bad = await at.run(["doctor"], { SVC_VIA_SERVER: "maybe" });
  assert.equal(bad.code, 2);
  assert.match(bad.stderr, /SVC_VIA_SERVER: expected true or false, got "maybe"/);
});

Deno.test("SVC_CONDUIT, conduit.mode: flag, variable, profile, default; shown by doctor and config view --merge", async () => {
  await using at = await fixture({
    conduit: { mode: "socks5", socks5: { listen: ":1080" }, ingress: { mode: "emulate" } },
  });
  const conduit = async (args: string[], env?: Record<string, string>) =>
    /^.*conduit: .*$/m.exec((await at.run(["doctor", ...args], env)).stdout)?.[0];
  assert.match(
    (await conduit([]))!,
    /^ok .*socks5 \(context a\): sessions open a SOCKS5 proxy on :1080$/,
  );
  const usual = { SVC_CONDUIT: "port-forward" };
  assert.match((await conduit([], usual))!, /^ok .*port-forward \(SVC_CONDUIT\): sessions/);
  assert.match((await conduit(["--conduit", "socks5"], usual))!, /^ok .*socks5 \(--conduit\)/);
  const all = (await at.run(["doctor"])).stdout;
  assert.doesNotMatch(all, /has no effect/);
  const merged = await at.run(["config", "view", "--merge", "--output", "json"], usual);
  assert.deepEqual(JSON.parse(merged.stdout).conduit, {
    mode: "port-forward",
    socks5: { listen: ":1080" },
    ingress: { mode: "emulate" },
  });
  for (const command of ["doctor", "config"]) {
    const bad = await at.run([command, ...(command === "config" ? ["view"] : [])], {
      SVC_CONDUIT: "socks4",
    });
    assert.equal(bad.code, 2);
    assert.match(bad.stderr, /SVC_CONDUIT: "socks4" is not one of port-forward, socks5/);
  }
  await using none = await fixture();
  assert.ok(!(await none.run(["doctor"])).stdout.includes("conduit"));
});

Deno.test("SVC_GH_BIN: a path or a name on PATH; one that cannot be run is told", async () => {
  await using at = await fixture();
  const gh = async (env: Record<string, string>) =>
    /^.*gh credential source: .*$/m.exec((await at.run(["doctor"], env)).stdout)?.[0];
  assert.equal(await gh({}), undefined);
  const path = join(at.folder, "my-gh");
  const said = new RegExp(`^warning .*${path} \\(SVC_GH_BIN\\) is not a program that can be run`);
  assert.match((await gh({ SVC_GH_BIN: path }))!, said);
  await Deno.writeTextFile(path, "#!/bin/sh\n", { mode: 0o600 });
  assert.match((await gh({ SVC_GH_BIN: path }))!, said);
  await Deno.chmod(path, 0o700);
  assert.match((await gh({ SVC_GH_BIN: path }))!, new RegExp(`^ok .*${path} \\(SVC_GH_BIN\\)`));
  assert.match(
    (await gh({ SVC_GH_BIN: "my-gh", PATH: `/x:${at.folder}` }))!,
    new RegExp(`^ok .*${path}`),
  );
});
