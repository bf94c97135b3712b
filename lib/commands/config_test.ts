import assert from "node:assert/strict";
import { join, relative } from "node:path";
import { writePem } from "../../test/fixtures/pem.ts";
import { svcFake } from "../../test/fixtures/cli.ts";

async function folder() {
  const path = await Deno.makeTempDir();
  const file = join(path, "svc", "config.yaml");
  const env = { XDG_CONFIG_HOME: path, SVC_SERVER: "" };
  return {
    path,
    file,
    config: (args: string[], more: Parameters<typeof svcFake>[1] = {}) =>
      svcFake(["config", ...args], { ...more, env: { ...env, ...more.env } }),
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
}

async function good(result: ReturnType<typeof svcFake>) {
  const { code, stdout, stderr } = await result;
  assert.equal(code, 0, stderr);
  return stdout;
}

Deno.test("config: contexts are made, shown, selected, changed and deleted; the file is private", async () => {
  await using at = await folder();
  assert.equal(await good(at.config(["get-contexts"])), "CURRENT   NAME   SERVER   AUTH\n");
  assert.equal((await at.config(["current-context"])).code, 1);
  await good(
    at.config(["set-context", "prod", "--server", "https://svc.example", "--token", "s3cret"]),
  );
  assert.equal(await good(at.config(["current-context"])), "prod\n");
  assert.equal((await Deno.stat(at.file)).mode! & 0o777, 0o600);
  assert.equal((await Deno.stat(join(at.path, "svc"))).mode! & 0o777, 0o700);
  await good(at.config(["set-context", "lab", "--ssh-addr", "lab:2222", "--no-ssh-no-agent"]));
  assert.equal(
    await good(at.config(["get-contexts"])),
    "CURRENT   NAME   SERVER                AUTH\n" +
      "*         prod   https://svc.example   token\n" +
      "          lab    ssh:lab:2222\n",
  );
  await good(at.config(["use-context", "lab"]));
  assert.equal(await good(at.config(["current-context"])), "lab\n");
  const deleted = await at.config(["delete-context", "lab"]);
  assert.match(deleted.stderr, /deleted context lab; no context is selected now/);
  const unknown = await at.config(["use-context", "pro"]);
  assert.equal(unknown.code, 1);
  assert.match(
    unknown.stderr,
    /Cannot use context "pro": there is no context of that name; did you mean prod\?/,
  );
  assert.equal((await at.config(["get-context"])).code, 2);
  assert.equal((await at.config(["use-context"])).code, 2);
});

Deno.test("config: an open folder of svc's own is closed when the file is written", async () => {
  await using at = await folder();
  await Deno.mkdir(join(at.path, "svc"), { mode: 0o755 });
  await good(at.config(["set-context", "a", "--server", "http://x"]));
  assert.equal((await Deno.stat(join(at.path, "svc"))).mode! & 0o777, 0o700);
});

Deno.test("config set-context keeps comments, order and what it does not name", async () => {
  await using at = await folder();
  await Deno.mkdir(join(at.path, "svc"));
  await Deno.writeTextFile(
    at.file,
    "# mine\ncontexts:\n  # the big one\n  prod:\n    token: old # rotate monthly\n" +
      "    server: https://a.example\n  other:\n    server: http://o\n",
  );
  await good(at.config(["set-context", "prod", "--token", "-"], { stdin: "new\n" }));
  assert.equal(
    await Deno.readTextFile(at.file),
    "# mine\ncontexts:\n  # the big one\n  prod:\n    token: new # rotate monthly\n" +
      "    server: https://a.example\n  other:\n    server: http://o\n",
  );
  // What would not be valid is not written.
  const { cert } = await writePem(at.path);
  const bad = await at.config(["set-context", "prod", "--tls-client-cert", cert]);
  assert.equal(bad.code, 2);
  assert.match(
    bad.stderr,
    /Cannot write .*: contexts\.prod\.tls\.client-key: missing; client-cert needs it\n {2}nothing has changed/,
  );
  assert.match(
    await Deno.readTextFile(at.file),
    /^# mine\ncontexts:\n {2}# the big one\n {2}prod:\n {4}token: new/,
  );
});

Deno.test("config set-context: the named flags of a cluster profile, --set, --unset, lists", async () => {
  await using at = await folder();
  await good(at.config([
    "set-context",
    "k8s",
    ...["--pf-namespace", "ns", "--pf-service", "svc", "--pf-remote-port", "5000"],
    ...["--kube-auth-service-account", "ci", "--kube-auth-audience", "svc"],
    ...["--token-exchange", "--token-exchange-scope", "registry:pull"],
    ...["--shell", "bash -l", "--shell", "sh", "--conduit-mode", "socks5"],
    ...["--set", "conduit.socks5.resolve=[{pattern: ^db, replace: 'db:5432'}]"],
  ]));
  assert.deepEqual(JSON.parse(await good(at.config(["view", "--output", "json"]))), {
    "current-context": "k8s",
    contexts: {
      k8s: {
        "port-forward": { namespace: "ns", service: "svc", "remote-port": 5000 },
        "kube-auth": { "service-account": "ci", audience: "svc" },
        "token-exchange": { enabled: true, scope: "registry:pull" },
        conduit: { mode: "socks5", socks5: { resolve: [{ pattern: "^db", replace: "db:5432" }] } },
        shells: ["bash -l", "sh"],
      },
    },
  });
  await good(
    at.config([
      "set-context",
      "k8s",
      "--unset",
      "conduit,token-exchange.scope",
      "--no-token-exchange",
    ]),
  );
  const after = JSON.parse(await good(at.config(["view", "--output", "json"]))).contexts.k8s;
  assert.deepEqual(after["token-exchange"], { enabled: false });
  assert.equal(after.conduit, undefined);
});

Deno.test("config set-context: the path of a PEM file is looked at when it is typed", async () => {
  await using at = await folder();
  const { cert, key } = await writePem(at.path);
  const missing = `${at.path}/nowhere.pem`;
  const bad: [string[], RegExp][] = [
    [["--tls-ca-cert", missing], /nowhere\.pem as tls\.ca-cert: there is no such file/],
    [["--tls-ca-cert", at.path], /it is not a file/],
    [["--tls-ca-cert", key], /it holds no certificate in PEM/],
    [["--tls-client-cert", cert, "--tls-client-key", cert], /client-key: it holds no key in PEM/],
    [["--set", `tls.ca-cert=${missing}`], /there is no such file/],
    [["--set", `conduit.ingress.ca-file=${missing}`], /there is no such file/],
  ];
  for (const [args, why] of bad) {
    const { code, stderr } = await at.config([
      "set-context",
      "a",
      "--server",
      "https://x",
      ...args,
    ]);
    assert.equal(code, 2, stderr);
    assert.match(stderr, why);
  }
  await assert.rejects(Deno.stat(at.file));
  const pair = ["--tls-client-cert", cert, "--tls-client-key", key];
  await good(
    at.config(["set-context", "a", "--server", "https://x", "--tls-ca-cert", cert, ...pair]),
  );
});

Deno.test("config view: redacted, --raw, --export and --from-file, --merge", async () => {
  await using at = await folder();
  await Deno.mkdir(join(at.path, "svc"), { mode: 0o700 });
  await writePem(join(at.path, "svc"));
  await good(
    at.config([
      "set-context",
      "prod",
      "--server",
      "https://a",
      "--token",
      "s3cret",
      "--set",
      "tls.ca-cert=ca.pem",
    ]),
  );
  const shown = await good(at.config(["view"]));
  assert.match(shown, /token: REDACTED/);
  assert.ok(!shown.includes("s3cret"));
  assert.match(await good(at.config(["view", "--raw"])), /token: s3cret/);
  const exported = await good(at.config(["view", "--export"]));
  assert.match(exported, new RegExp(`ca-cert: ${at.path}/svc/ca.pem`));
  const here = relative(Deno.cwd(), join(at.path, "svc/ca.pem"));
  await good(at.config(["set-context", "cwd", "--tls-ca-cert", here]));
  assert.match(
    await good(at.config(["view", "cwd"])),
    new RegExp(`ca-cert: ${at.path}/svc/ca.pem`),
  );

  await using other = await folder();
  await good(other.config(["set-context", "prod", "--from-file", "-"], { stdin: exported }));
  assert.match(await good(other.config(["view", "--raw"])), /token: s3cret/);
  const bare = join(at.path, "bare.yaml");
  await Deno.writeTextFile(bare, "server: https://b\ntoken: t2\n");
  await good(other.config(["set-context", "prod", "--from-file", bare, "--merge"]));
  const merged = JSON.parse(await good(other.config(["view", "--raw", "--output", "json"])));
  assert.deepEqual(merged.contexts.prod.server, "https://b");
  assert.deepEqual(merged.contexts.prod.tls["ca-cert"], join(at.path, "svc/ca.pem"));

  await Deno.writeTextFile(join(at.path, "svc-context.yaml"), "server: https://c\ntoken: t3\n");
  const effective = await good(
    at.config(["view", "--merge", "--context-file", join(at.path, "svc-context.yaml")]),
  );
  assert.match(effective, /server: https:\/\/c\n/);
  assert.match(effective, /token: REDACTED/);
});

Deno.test("config: a broken file is told by its line, and its text is not shown", async () => {
  await using at = await folder();
  await Deno.mkdir(join(at.path, "svc"));
  await Deno.writeTextFile(at.file, "contexts:\n  a:\n    token: 's3cret\n");
  const { code, stderr } = await at.config(["view"]);
  assert.equal(code, 2);
  assert.match(stderr, /Cannot read .*config\.yaml: line \d+, column \d+: /);
  assert.ok(!stderr.includes("s3cret"));
  await Deno.writeTextFile(at.file, "contexts: *nothing\n");
  assert.match((await at.config(["view"])).stderr, /Cannot read .*config\.yaml: /);
});

Deno.test("config: changes at the same time lose nothing", async () => {
  await using at = await folder();
  const names = Array.from({ length: 8 }, (_, i) => `c${i}`);
  await Promise.all(
    names.map((name) => good(at.config(["set-context", name, "--server", "http://x"]))),
  );
  const { contexts } = JSON.parse(await good(at.config(["view", "--output", "json"])));
  assert.deepEqual(Object.keys(contexts).sort(), names);
});
