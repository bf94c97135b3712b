/** Precedence of endpoints and credentials, and the project's override (SPEC.md, "Project context override"). */
import assert from "node:assert/strict";
import { join } from "node:path";
import { stringify } from "yaml";
import { SvcError } from "../base/errors.ts";
import type { Context } from "./profile/types.ts";
import { overlay, type ResolveInput, resolveTarget, type Target } from "./resolve.ts";

async function folder(contexts: Record<string, Context>, current?: string) {
  const home = await Deno.makeTempDir();
  const config = join(home, "config.yaml");
  const project = join(home, "work", "app");
  await Deno.mkdir(project, { recursive: true });
  await Deno.writeTextFile(config, stringify({ "current-context": current, contexts }), {
    mode: 0o600,
  });
  const warnings: string[] = [];
  return {
    home,
    project,
    warnings,
    write: (path: string, value: unknown, mode = 0o600) =>
      Deno.writeTextFile(
        join(home, path),
        typeof value === "string" ? value : JSON.stringify(value),
        { mode },
      ),
    resolve: (more: Partial<ResolveInput> = {}) =>
      resolveTarget({
        os: "linux",
        env: { HOME: home },
        cwd: project,
        uid: Deno.uid(),
        configFile: config,
        warn: (text) => void warnings.push(text),
        ...more,
      }),
    [Symbol.asyncDispose]: () => Deno.remove(home, { recursive: true }),
  };
}

const prod: Context = { server: "https://prod.example", token: "prod-token" };
const flag = (value: string) => ({ value, source: "--server" });
const kube = { "service-account": "ci" };
const key = { "identity-file": "/id" };

Deno.test("SVC_SERVER / SVC_HOST: flag, variable, profile, default", async () => {
  await using at = await folder({ prod }, "prod");
  assert.equal((await at.resolve()).server, "https://prod.example");
  assert.equal((await at.resolve({ server: flag("http://other") })).server, "http://other");
  await using none = await folder({});
  const found = await none.resolve();
  assert.equal(found.server, "http://localhost:5000");
  assert.equal(found.source, "default");
  assert.deepEqual(found.transport, { kind: "direct" });
});

Deno.test("SVC_CONTEXT: names a context; an unknown one is an error that lists them", async () => {
  await using at = await folder({ prod, lab: { server: "http://lab" } }, "prod");
  const context = { value: "lab", source: "SVC_CONTEXT" };
  assert.equal((await at.resolve({ context })).server, "http://lab");
  await assert.rejects(
    at.resolve({ context: { value: "lba", source: "SVC_CONTEXT" } }),
    (error) =>
      error instanceof SvcError && /did you mean lab\?/.test(error.message) &&
      /SVC_CONTEXT/.test(error.help),
  );
  await using stale = await folder({ prod }, "gone");
  await assert.rejects(stale.resolve(), /Cannot use context "gone"/);
});

Deno.test("a named server takes the context's credential only where it is that context's", async () => {
  const tls = { "ca-cert": "/ca", "client-cert": "/c", "client-key": "/k" };
  await using at = await folder({ prod: { ...prod, tls } }, "prod");
  const other = await at.resolve({ server: flag("http://other") });
  assert.deepEqual(other.credential, { kind: "none" });
  assert.equal(other.tls, undefined);
  const same = await at.resolve({ server: flag("https://prod.example:443/") });
  assert.equal(same.credential.kind, "token");
  assert.deepEqual(same.tls, tls);
  const both = await at.resolve({
    server: flag("https://alias.example"),
    context: { value: "prod", source: "--context" },
  });
  assert.equal(both.credential.kind, "token");
});

Deno.test("an explicit server makes ssh-tunnel and port-forward inert; each alone is the transport", async () => {
  const ssh = { addr: "lab", "remote-addr": "127.0.0.1:6000", "remote-tls": true };
  const forward = { service: "svc", namespace: "ns", "remote-port": 5000 };
  await using at = await folder({
    ssh: { "ssh-tunnel": ssh },
    kube: { "port-forward": forward },
    inert: { server: "http://x", "ssh-tunnel": ssh, "port-forward": forward },
  });
  const on = (value: string) => at.resolve({ context: { value, source: "--context" } });
  const tunnel = await on("ssh");
  assert.deepEqual(tunnel.transport, { kind: "ssh", settings: ssh });
  assert.equal(tunnel.server, "https://127.0.0.1:6000");
  const cluster = await on("kube");
  assert.deepEqual(cluster.transport, { kind: "kube", settings: forward });
  assert.equal(cluster.server, "http://svc.ns:5000");
  assert.deepEqual((await on("inert")).transport, { kind: "direct" });
});

Deno.test("credential precedence: SVC_TOKEN, key-auth, kube-auth, token", async () => {
  const forward = { service: "s", "remote-port": 1, "kube-context": "kind", namespace: "ns" };
  await using at = await folder({
    key: { ...prod, "key-auth": key },
    kube: { "port-forward": forward, token: "t", "kube-auth": kube },
    token: prod,
  });
  const on = async (value: string, more: Partial<ResolveInput> = {}) =>
    (await at.resolve({ context: { value, source: "--context" }, ...more })).credential;
  assert.deepEqual(await on("key", { token: "env" }), {
    kind: "token",
    token: "env",
    source: "SVC_TOKEN",
  });
  assert.deepEqual(await on("key"), { kind: "key", settings: key });
  assert.deepEqual(await on("kube"), {
    kind: "kube",
    settings: { ...kube, "kube-context": "kind", namespace: "ns" },
  });
  assert.deepEqual(await on("token"), {
    kind: "token",
    token: "prod-token",
    source: "context token",
  });
});

Deno.test("token exchange: whatever the credential, except in a key-auth profile", async () => {
  const exchange = { enabled: true, scope: "registry:pull" };
  await using at = await folder({
    token: { ...prod, "token-exchange": exchange },
    off: { ...prod, "token-exchange": { scope: "x" } },
    key: { ...prod, "key-auth": key, "token-exchange": exchange },
    nothing: { server: "http://x", "token-exchange": exchange },
  });
  const on = async (value: string, more: Partial<ResolveInput> = {}) =>
    (await at.resolve({ context: { value, source: "--context" }, ...more })).exchange;
  assert.deepEqual(await on("token"), { scope: "registry:pull" });
  assert.deepEqual(await on("nothing", { token: "env" }), { scope: "registry:pull" });
  assert.equal(await on("off"), undefined);
  assert.equal(await on("key"), undefined);
  assert.equal(await on("key", { token: "env" }), undefined);
  assert.equal(await on("nothing"), undefined);
});

Deno.test("SVC_VIA_SERVER and SVC_CONDUIT go before the profile, the project's file before it, too", async () => {
  await using at = await folder({
    a: {
      server: "http://x",
      "via-server": true,
      conduit: { mode: "socks5", socks5: { listen: ":1" } },
    },
  }, "a");
  const said = ({ viaServer, conduit }: Target) => [
    viaServer.value,
    viaServer.source,
    conduit.value,
    conduit.source,
  ];
  assert.deepEqual(said(await at.resolve()), [true, "context a", "socks5", "context a"]);
  await at.write("work/app/svc-context.json", { "via-server": false });
  const project = join(at.project, "svc-context.json");
  assert.deepEqual(said(await at.resolve()), [false, project, "socks5", "context a"]);
  const over = await at.resolve({
    viaServer: { value: true, source: "SVC_VIA_SERVER" },
    conduit: { value: "port-forward", source: "--conduit" },
  });
  assert.deepEqual(said(over), [true, "SVC_VIA_SERVER", "port-forward", "--conduit"]);
  assert.equal(over.settings["via-server"], true);
  assert.deepEqual(over.settings.conduit, { mode: "port-forward", socks5: { listen: ":1" } });
  await using none = await folder({});
  assert.deepEqual(said(await none.resolve()), [false, "default", "port-forward", "default"]);
});

Deno.test("override rule 1: upward, nearest first, stops at the repository's root and at home", async () => {
  await using at = await folder({ prod }, "prod");
  await at.write("work/svc-context.yaml", { server: "http://up", token: "t" });
  assert.equal((await at.resolve({ trustContextFile: true })).server, "http://up");
  await at.write("work/app/svc-context.toml", 'server = "http://near"\ntoken = "t"\n');
  assert.equal((await at.resolve({ trustContextFile: true })).server, "http://near");
  await Deno.remove(join(at.project, "svc-context.toml"));
  await Deno.mkdir(join(at.project, ".git"));
  assert.equal((await at.resolve({ trustContextFile: true })).server, "https://prod.example");
  await Deno.remove(join(at.project, ".git"));
  await Deno.remove(join(at.home, "work/svc-context.yaml"));
  // Home itself is the last folder that is looked at.
  await at.write("svc-context.json", { server: "http://home", token: "t" });
  assert.equal((await at.resolve({ trustContextFile: true })).server, "http://home");
  const above = await at.resolve({ trustContextFile: true, env: { HOME: join(at.home, "work") } });
  assert.equal(above.server, "https://prod.example");
});

Deno.test("override rule 1: each of the four names, also without a stored context", async () => {
  for (const name of ["json", "yaml", "yml", "toml"]) {
    await using at = await folder({});
    await at.write(
      `work/app/svc-context.${name}`,
      name === "toml" ? 'server = "http://p"\ntoken = "t"\n' : { server: "http://p", token: "t" },
    );
    const found = await at.resolve({ trustContextFile: true });
    assert.equal(found.server, "http://p", name);
    assert.deepEqual(found.credential, {
      kind: "token",
      token: "t",
      source: join(at.project, `svc-context.${name}`),
    });
    const env = await at.resolve({ trustContextFile: true, server: flag("http://f"), token: "e" });
    assert.equal(env.server, "http://f");
    assert.deepEqual(env.credential, { kind: "token", token: "e", source: "SVC_TOKEN" });
  }
});

Deno.test("override rule 2: a named file, a missing one, and --no-context-file", async () => {
  await using at = await folder({ prod }, "prod");
  await at.write("named.json", { server: "http://named", token: "t" });
  const found = await at.resolve({ contextFile: join(at.home, "named.json") });
  assert.equal(found.server, "http://named");
  assert.deepEqual(at.warnings, []);
  await assert.rejects(
    at.resolve({ contextFile: "missing.yaml" }),
    /Cannot read context file .*missing\.yaml: there is no such file/,
  );
  await at.write("work/app/svc-context.json", { server: "http://p", token: "t" });
  const off = await at.resolve({ noContextFile: true, trustContextFile: true });
  assert.equal(off.server, "https://prod.example");
  assert.deepEqual(at.warnings, []);
  await assert.rejects(
    at.resolve({ noContextFile: true, contextFile: "x" }),
    (error) => error instanceof SvcError && error.code === "usage",
  );
});

Deno.test("override rule 3: a found file contributes via-server alone, with a warning", async () => {
  await using at = await folder({ prod }, "prod");
  const all: Context = {
    "via-server": true,
    server: "http://evil",
    token: "t",
    tls: { "insecure-skip-verify": true },
    "registry-host": "evil:5000",
    "kube-auth": kube,
    conduit: { mode: "socks5" },
    shells: ["/bin/evil"],
  };
  await at.write("work/app/svc-context.yaml", all);
  const found = await at.resolve();
  assert.equal(found.viaServer.value, true);
  assert.deepEqual(found.settings, { ...prod, "via-server": true });
  assert.equal(at.warnings.length, 1);
  for (const name of Object.keys(all)) {
    assert.equal(at.warnings[0].includes(name), name !== "via-server", name);
  }
  for (
    const transport of [{ "port-forward": { service: "s", "remote-port": 1 } }, {
      "ssh-tunnel": { addr: "e" },
    }]
  ) {
    await at.write("work/app/svc-context.yaml", transport);
    assert.equal((await at.resolve()).server, "https://prod.example");
  }
  await at.write("work/app/svc-context.yaml", "server: [");
  assert.equal((await at.resolve()).server, "https://prod.example");
  assert.match(at.warnings.at(-1)!, /ignoring .*svc-context\.yaml: .*not YAML/);
  await assert.rejects(at.resolve({ trustContextFile: true }), /not YAML/);
});

Deno.test("override rule 3: another owner, open files and folders, and links are ignored, trusted or not", async () => {
  await using at = await folder({ prod }, "prod");
  const file = join(at.project, "svc-context.json");
  const ignored = async (why: RegExp, more: Partial<ResolveInput> = {}) => {
    at.warnings.length = 0;
    const found = await at.resolve({ trustContextFile: true, ...more });
    assert.equal(found.server, "https://prod.example");
    assert.match(at.warnings.join(), why);
  };
  await at.write("work/app/svc-context.json", { server: "http://p", token: "t" });
  await ignored(/it belongs to another user/, { uid: Deno.uid()! + 1 });
  await Deno.chmod(at.project, 0o777);
  await ignored(/everybody can write to its folder/);
  await Deno.chmod(at.project, 0o1777);
  assert.equal((await at.resolve({ trustContextFile: true })).server, "http://p");
  await Deno.chmod(at.project, 0o700);
  await Deno.chmod(file, 0o666);
  await ignored(/everybody can write to it/);
  await Deno.chmod(file, 0o600);
  await Deno.rename(file, join(at.home, "elsewhere.json"));
  await Deno.symlink(join(at.home, "elsewhere.json"), file);
  await ignored(/it is a link/);
});

Deno.test("override rule 5: another endpoint without a credential of its own drops the stored one", async () => {
  const tls = { "ca-cert": "/ca", "client-cert": "/c", "client-key": "/k" };
  await using at = await folder({ prod: { ...prod, tls } }, "prod");
  const contextFile = join(at.home, "o.json");
  await at.write("o.json", { server: "http://other" });
  const dropped = await at.resolve({ contextFile });
  assert.deepEqual(dropped.credential, { kind: "none" });
  assert.deepEqual(dropped.tls, { "ca-cert": "/ca" });
  assert.match(
    at.warnings.join(),
    /names another server, so the selected context's credential is not used/,
  );
  at.warnings.length = 0;
  for (const own of [{ token: "own" }, { "kube-auth": kube }]) {
    await at.write("o.json", { server: "http://other", ...own });
    const { credential } = await at.resolve({ contextFile });
    assert.equal(credential.kind, "token" in own ? "token" : "kube");
    assert.notEqual((credential as { token?: string }).token, "prod-token");
  }
  await at.write("o.json", { server: "https://prod.example", "via-server": true });
  assert.equal((await at.resolve({ contextFile })).credential.kind, "token");
  assert.deepEqual(at.warnings, []);
});

Deno.test("overlay: ways to an endpoint are one choice, credentials another", () => {
  const stored: Context = { server: "http://a", "key-auth": key, shells: ["sh"] };
  const { context } = overlay(stored, { "ssh-tunnel": { addr: "x" }, token: "t" });
  assert.deepEqual(context, { shells: ["sh"], "ssh-tunnel": { addr: "x" }, token: "t" });
});

Deno.test("a profile that anybody could have written is refused; tokens that others can read are a warning", async () => {
  await using at = await folder({ prod }, "prod");
  const config = join(at.home, "config.yaml");
  const refused = (why: RegExp) => assert.rejects(at.resolve(), why);
  assert.deepEqual(at.warnings, []);
  await Deno.chmod(config, 0o644);
  assert.equal((await at.resolve()).server, "https://prod.example");
  assert.match(at.warnings.join(), /others can read the tokens in .*config\.yaml; chmod 600/);
  await Deno.chmod(config, 0o606);
  await refused(/Cannot use .*config\.yaml: everybody can write to it/);
  await Deno.chmod(config, 0o600);
  await Deno.chmod(at.home, 0o777);
  await refused(/everybody can write to its folder/);
  await Deno.chmod(at.home, 0o1777);
  await at.resolve();
  await Deno.chmod(at.home, 0o700);
});
