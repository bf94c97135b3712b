import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { svcFake } from "../../../test/fixtures/cli.ts";
import type { Target, Transport } from "../resolve.ts";
import { isElsewhere, type Registry, registryOf } from "./engine.ts";
import { checkTrust } from "./trust.ts";
import { clockCheck, skewOf } from "./way.ts";

async function root(files: Record<string, string>) {
  const path = await Deno.makeTempDir();
  const write = async (name: string, content: string) => {
    await Deno.mkdir(dirname(join(path, name)), { recursive: true });
    await Deno.writeTextFile(join(path, name), content);
  };
  for (const [name, content] of Object.entries(files)) await write(name, content);
  return {
    path,
    /** Engines that are not content, and after writing what they want, those that still are not. */
    async twice(registry: Registry) {
      const before = await checkTrust({ registry, root: path });
      for (const { fixes } of before) {
        for (const fix of fixes) await write(fix.path.slice(path.length + 1), fix.content);
      }
      const after = await checkTrust({ registry, root: path });
      const wanting = (reports: typeof before) =>
        reports.filter(({ ok }) => !ok).map(({ engine }) => engine);
      return { before: wanting(before), after: wanting(after) };
    },
    read: (name: string) => Deno.readTextFile(join(path, name)),
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
}

const ENGINES = {
  "etc/docker/daemon.json": '{"log-driver": "json-file", "insecure-registries": ["other:5000"]}',
  "etc/containers/registries.conf": 'unqualified-search-registries = ["docker.io"]\n',
  "etc/containerd/config.toml": `version = 3
[plugins."io.containerd.cri.v1.images".registry]
config_path = "/etc/containerd/certs.d:/etc/docker/certs.d"
`,
  "etc/rancher/k3s/registries.yaml": "# ours\nmirrors:\n  other:\n    endpoint: [http://other]\n",
};

Deno.test("doctor: a registry without TLS, in each engine's file; what stands there stays", async () => {
  await using at = await root(ENGINES);
  const { before, after } = await at.twice({ host: "svc.lan:5000", plain: true });
  assert.deepEqual(before, ["docker", "podman", "containerd", "k3s"]);
  assert.deepEqual(after, []);
  assert.deepEqual(JSON.parse(await at.read("etc/docker/daemon.json")), {
    "log-driver": "json-file",
    "insecure-registries": ["other:5000", "svc.lan:5000"],
  });
  assert.match(
    await at.read("etc/containers/registries.conf.d/svc-svc.lan-5000.conf"),
    /location = "svc\.lan:5000"\ninsecure = true/,
  );
  assert.match(
    await at.read("etc/containerd/certs.d/svc.lan:5000/hosts.toml"),
    /\[host\."http:\/\/svc\.lan:5000"\]/,
  );
  const k3s = await at.read("etc/rancher/k3s/registries.yaml");
  assert.match(k3s, /^# ours/);
  assert.match(k3s, /http:\/\/other/);
  assert.match(k3s, /http:\/\/svc\.lan:5000/);
});

Deno.test("doctor: a registry with a CA of its own; one with a known CA wants nothing", async () => {
  await using at = await root(ENGINES);
  const known = await at.twice({ host: "svc.example", plain: false });
  assert.deepEqual(known.before, []);
  const own = await at.twice({
    host: "svc.example",
    plain: false,
    ca: "-----BEGIN CERTIFICATE-----\n",
  });
  assert.deepEqual(own, { before: ["docker", "podman", "containerd", "k3s"], after: [] });
});

Deno.test("doctor: engines that are not there are not asked; docker takes loopback as it is", async () => {
  await using none = await root({});
  assert.deepEqual(await checkTrust({ registry: { host: "x", plain: true }, root: none.path }), []);
  await using at = await root({ "etc/docker/key.json": "" });
  const [report] = await checkTrust({
    registry: { host: "localhost:5000", plain: true },
    root: at.path,
  });
  assert.equal(report.ok, true);
});

Deno.test("doctor: containerd's CRI plugin is told of the folder, in the words of its configuration's version", async () => {
  const registry = { host: "svc.lan:5000", plain: true };
  const tables: [before: string | undefined, table: RegExp][] = [
    [undefined, /^version = 2\n\n\[plugins\."io\.containerd\.grpc\.v1\.cri"\.registry\]\n/],
    ["# ours\nversion = 2\n", /^# ours\nversion = 2\n\n\[plugins\."io\.containerd\.grpc\.v1\.cri"/],
    ["version = 3\n", /\n\[plugins\."io\.containerd\.cri\.v1\.images"\.registry\]\n/],
    [
      "root = '/x'\n",
      /\n\[plugins\.cri\.registry\]\n {2}config_path = "\/etc\/containerd\/certs\.d"\n$/,
    ],
  ];
  for (const [before, table] of tables) {
    await using at = await root({
      "etc/containerd/here": "",
      ...(before !== undefined && { "etc/containerd/config.toml": before }),
    });
    assert.deepEqual(await at.twice(registry), { before: ["containerd"], after: [] });
    assert.match(await at.read("etc/containerd/config.toml"), table);
  }
  await using off = await root({ "etc/containerd/config.toml": 'disabled_plugins = ["cri"]\n' });
  assert.deepEqual(await off.twice(registry), { before: ["containerd"], after: [] });
  assert.match(await off.read("etc/containerd/config.toml"), /^disabled_plugins = \["cri"\]\n$/);
  const own = '[plugins."io.containerd.grpc.v1.cri".registry]\n';
  await using elsewhere = await root({
    "etc/containerd/config.toml": `version = 2\n${own}config_path = "/etc/own.d"\n`,
  });
  assert.deepEqual((await elsewhere.twice(registry)).after, []);
  assert.match(await elsewhere.read("etc/own.d/svc.lan:5000/hosts.toml"), /http:\/\/svc\.lan:5000/);
  // A table without the key is its owner's to correct.
  await using table = await root({ "etc/containerd/config.toml": `version = 2\n${own}x = 1\n` });
  assert.deepEqual((await table.twice(registry)).after, ["containerd"]);
  await using broken = await root({ "etc/containerd/config.toml": "version = \n" });
  await assert.rejects(
    broken.twice(registry),
    /Cannot check containerd: .*config\.toml is not TOML/,
  );
});

Deno.test("doctor: whether the registry has TLS, by its advertised name and the way to the server", () => {
  const of = (advertised: string, server: string) => {
    const { host, plain } = registryOf(advertised, server);
    return `${plain ? "http" : "https"} ${host}`;
  };
  assert.equal(of("localhost:5000", "http://localhost:5000"), "http localhost:5000");
  assert.equal(of("svc.lan:5000", "http://svc.lan:5000"), "http svc.lan:5000");
  assert.equal(of("localhost:5443", "https://127.0.0.1:5443"), "https localhost:5443");
  assert.equal(of("localhost:5000", "https://svc.example"), "http localhost:5000");
  assert.equal(of("svc.example", "https://svc.example"), "https svc.example");
  assert.equal(of("https://r.example", "http://127.0.0.1:5000"), "https r.example");
  assert.equal(of("http://r.example", "https://svc.example"), "http r.example");
});

Deno.test("doctor: a registry that only the server's own host can pull from is not looked for here", () => {
  const elsewhere = (host: string, server: string, transport: Transport = { kind: "direct" }) =>
    isElsewhere(host, { server, transport } as Target);
  const ssh: Transport = { kind: "ssh", settings: { addr: "lab" } };
  assert.equal(elsewhere("localhost:5000", "http://127.0.0.1:5000"), false);
  assert.equal(elsewhere("localhost:5000", "http://127.0.0.1:5000", ssh), true);
  assert.equal(elsewhere("localhost:5000", "http://svc.lan:5000"), true);
  assert.equal(elsewhere("svc.lan:5000", "http://127.0.0.1:5000", ssh), false);
});

Deno.test("doctor: clocks", () => {
  const now = Date.parse("2030-01-01T00:00:00Z");
  assert.equal(skewOf(new Date(now).toUTCString(), now + 400, now + 600), 0);
  assert.equal(skewOf(null, now, now), undefined);
  assert.equal(skewOf("soon", now, now), undefined);
  assert.equal(clockCheck(1000).outcome, "ok");
  assert.match(clockCheck(90_000).detail, /90 s ahead/);
  assert.match(clockCheck(-90_000).detail, /90 s behind/);
});

Deno.test("svc doctor: each step, and a refused credential or no server end with 1", async () => {
  const info = { version: "1", identity: { subject: "me", scopes: ["api"] } };
  const good = await svcFake(["doctor"], {
    handler: (_, url) => url.pathname === "/healthz" ? new Response("ok") : Response.json(info),
  });
  assert.equal(good.code, 0, good.stdout + good.stderr);
  assert.match(
    good.stdout,
    /^ok {7}server: http:\/\/127\.0\.0\.1:\d+ \(SVC_SERVER\), directly, without TLS$/m,
  );
  assert.match(good.stdout, /^ok {7}connection: it answers in \d+ ms$/m);
  assert.match(good.stdout, /^ok {7}clocks: /m);
  assert.match(good.stdout, /^ok {7}credential: the server knows you as me \(scopes: api\)$/m);
  const nobody = await svcFake(["doctor"]);
  assert.equal(nobody.code, 1);
  assert.match(nobody.stdout, /^FAILED {3}connection: Cannot reach/m);
  const late = await svcFake(["doctor"], {
    handler: () =>
      Response.json(info, { headers: { date: new Date(Date.now() - 3_600_000).toUTCString() } }),
  });
  assert.equal(late.code, 1);
  assert.match(late.stdout, /^FAILED {3}clocks: the server's is 3[56]\d\d s behind/m);
});
