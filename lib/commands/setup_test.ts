import assert from "node:assert/strict";
import { join } from "node:path";
import { parse } from "yaml";
import { svcFake } from "../../test/fixtures/cli.ts";
import { writePem } from "../../test/fixtures/pem.ts";
import { startKubeStub } from "../../test/peers/kube_stub.ts";
import type { Context } from "../client/profile/types.ts";
import { equivalent } from "./setup.ts";
import { type Answers, contextOf } from "./setup/steps.ts";

async function setup(
  answers: string[],
  handler?: (request: Request) => Response,
  env: Record<string, string> = {},
) {
  const folder = await Deno.makeTempDir();
  const server = handler &&
    Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, handler);
  const url = server ? `http://127.0.0.1:${server.addr.port}` : "";
  const file = join(folder, "config.yaml");
  try {
    const result = await svcFake(["setup"], {
      env: { SVC_CONFIG: file, SVC_SERVER: "", ...env },
      stdin: answers.map((answer) => answer.replace("URL", url) + "\n").join(""),
    });
    const saved = await Deno.readTextFile(file).catch(() => undefined);
    return { ...result, saved: saved?.replaceAll(url || "\0", "URL"), url };
  } finally {
    await server?.shutdown();
    await Deno.remove(folder, { recursive: true });
  }
}

const INFO = { version: "1", identity: { subject: "me", scopes: ["api"] } };
const answering = (request: Request) =>
  new URL(request.url).pathname === "/healthz" ||
    request.headers.get("authorization") === "Bearer s3cret"
    ? Response.json(INFO)
    : Response.json({
      code: "unauthorized",
      detail: "Cannot read info: no credential",
      help: "log in",
    }, {
      status: 401,
      headers: { "content-type": "application/problem+json" },
    });

Deno.test("setup: answers on a pipe make a context that works, and the command that does the same", async () => {
  const { code, saved, stdout, stderr, url } = await setup(
    ["2", "URL", "token", "s3cret", "mine"],
    answering,
  );
  assert.equal(code, 0, stderr);
  assert.equal(
    saved,
    "contexts:\n  mine:\n    server: URL\n    token: s3cret\ncurrent-context: mine\n",
  );
  assert.equal(stdout, `svc config set-context mine --server ${url} --token - --current\n`);
  assert.match(stderr, /ok {7}credential: the server knows you as me/);
});

Deno.test("setup: going back, answers that are no good, and defaults", async () => {
  const { code, saved, stderr } = await setup(
    [
      "9",
      "ssh",
      "<",
      "remote",
      "ftp://x",
      "<",
      "2",
      "URL",
      "2",
      "<",
      "<",
      "",
      "token",
      "s3cret",
      "",
    ],
    answering,
  );
  assert.equal(code, 0, stderr);
  assert.match(stderr, /answer with 1 to 4, or < to go back/);
  assert.match(stderr, /"ftp:\/\/x" is not http\(s\)/);
  assert.match(saved!, /^contexts:\n {2}127\.0\.0\.1:\n {4}server: URL\n {4}token: s3cret\n/);
});

Deno.test("setup: a failure has its hint, and is mended by other answers, saved, or given up", async () => {
  const mended = await setup(
    ["2", "URL", "token", "wrong", "mine", "again", "", "", "", "s3cret", ""],
    answering,
  );
  assert.equal(mended.code, 0, mended.stderr);
  assert.match(mended.stderr, /FAILED {3}credential: Cannot read info: no credential\n {9}log in/);
  assert.match(mended.saved!, /token: s3cret/);
  const kept = await setup(["2", "URL", "1", "mine", "save"], answering);
  assert.equal(kept.code, 1);
  assert.match(kept.saved!, /server: URL/);
  const quit = await setup(["2", "http://127.0.0.1:9", "1", "mine", "quit"]);
  assert.equal(quit.code, 1);
  assert.equal(quit.saved, undefined);
  assert.match(quit.stderr, /FAILED {3}connection: Cannot reach http:\/\/127\.0\.0\.1:9/);
  const ended = await setup(["2"]);
  assert.equal(ended.code, 2);
  assert.match(ended.stderr, /the input has ended/);
});

/** What the printed command makes of an empty profile. */
async function byCommand(command: string, stdin: string): Promise<string> {
  const folder = await Deno.makeTempDir();
  try {
    const file = join(folder, "config.yaml");
    const output = await new Deno.Command("sh", {
      args: ["-c", `for word in ${command}; do printf '%s\\n' "$word"; done`],
    }).output();
    const [svc, ...words] = new TextDecoder().decode(output.stdout).trimEnd().split("\n");
    assert.equal(svc, "svc");
    const env = { SVC_CONFIG: file, SVC_SERVER: "" };
    const { code, stderr } = await svcFake(words, { env, stdin });
    assert.equal(code, 0, stderr);
    return await Deno.readTextFile(file);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const FINGERPRINT = `SHA256:${"A".repeat(43)}`;

const PEM = await writePem(await Deno.makeTempDir({ prefix: "svc-setup-" }), {
  cert: "my cert.pem",
});
addEventListener("unload", () => Deno.removeSync(PEM.folder, { recursive: true }));

/** Answers → the context that they make. */
const SCENARIOS: [name: string, answers: Answers, context: Context][] = [
  ["local", { scenario: "local", port: "5001", auth: "none" }, { server: "http://localhost:5001" }],
  ["a token", { scenario: "remote", server: "http://x", auth: "token", token: "t 'x'" }, {
    server: "http://x",
    token: "t 'x'",
  }],
  ["a CA of its own, a key of the agent", {
    scenario: "remote",
    server: "https://x",
    ca: PEM.cert,
    auth: "agent",
    fingerprint: FINGERPRINT,
  }, {
    server: "https://x",
    tls: { "ca-cert": PEM.cert },
    "key-auth": { "key-fingerprint": FINGERPRINT },
  }],
  ["mTLS", {
    scenario: "remote",
    server: "https://x",
    auth: "certificate",
    clientCert: PEM.cert,
    clientKey: PEM.key,
  }, { server: "https://x", tls: { "client-cert": PEM.cert, "client-key": PEM.key } }],
  ["an SSH tunnel", {
    scenario: "ssh",
    addr: "lab",
    remoteAddr: "127.0.0.1:5000",
    tls: "no",
    auth: "key",
    identity: "/id",
  }, {
    "ssh-tunnel": { addr: "lab", "remote-addr": "127.0.0.1:5000" },
    "key-auth": { "identity-file": "/id" },
  }],
  ["an SSH tunnel to TLS", {
    scenario: "ssh",
    addr: "lab:2222",
    user: "ops",
    sshKey: "/ssh",
    remoteAddr: "127.0.0.1:5000",
    tls: "yes",
    ca: PEM.cert,
    serverName: "svc.example",
    auth: "none",
  }, {
    "ssh-tunnel": {
      addr: "lab:2222",
      user: "ops",
      "remote-addr": "127.0.0.1:5000",
      "identity-file": "/ssh",
      "remote-tls": true,
    },
    tls: { "ca-cert": PEM.cert, "server-name": "svc.example" },
  }],
  ["a cluster", {
    scenario: "cluster",
    kubeContext: "kind",
    namespace: "ns",
    service: "svc",
    remotePort: "80",
    tls: "yes",
    serverName: "svc.ns.svc",
    auth: "kube",
    account: "ci",
    audience: "svc",
  }, {
    "port-forward": {
      "kube-context": "kind",
      namespace: "ns",
      service: "svc",
      "remote-port": 80,
    },
    tls: { "server-name": "svc.ns.svc" },
    "kube-auth": { "service-account": "ci", audience: "svc" },
  }],
];

for (const [name, answers, context] of SCENARIOS) {
  Deno.test(`setup: ${name}, and the same context by the command that is printed`, async () => {
    assert.deepEqual(contextOf(answers), context);
    const made = await byCommand(equivalent("a b", context), `${context.token ?? ""}\n`);
    assert.deepEqual(parse(made), { contexts: { "a b": context }, "current-context": "a b" });
  });
}

Deno.test("setup: a Service in a cluster by questions, forwarded to; each failure has its hint", async () => {
  await using api = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answering);
  await using kube = await startKubeStub(api.addr.port);
  const answers = (context: string, service: string, port: string) => [
    ...["cluster", context, "team", service, port, "no", "token", "s3cret", "mine"],
  ];
  const good = await setup(answers("test", "svc", "80"), undefined, kube.env);
  assert.equal(good.code, 0, good.stderr);
  assert.match(
    good.stderr,
    /ok {7}server: http:\/\/svc\.team:80 .*, through the cluster \(service svc\)/,
  );
  assert.match(good.stderr, /ok {7}credential: the server knows you as me/);
  assert.equal(
    good.stdout,
    "svc config set-context mine --pf-kube-context test --pf-namespace team --pf-service svc " +
      "--pf-remote-port 80 --token - --current\n",
  );
  for (
    const [wrong, said] of [
      [answers("none", "svc", "80"), /FAILED {3}connection: .*has no context "none".*\n {9}\S/],
      [answers("test", "no", "80"), /FAILED {3}connection: .*services\/no not found.*\n {9}\S/],
      [answers("test", "svc", "81"), /FAILED {3}connection: .*it has no port 81, but 80.*\n {9}\S/],
      [answers("other", "svc", "80"), /FAILED {3}connection: .*\n {9}\S/],
    ] as const
  ) {
    const bad = await setup([...wrong, "quit"], undefined, kube.env);
    assert.equal(bad.code, 1);
    assert.match(bad.stderr, said);
    assert.equal(bad.saved, undefined);
  }
});

Deno.test("setup: a token that was given before is not shown when it is asked for again", async () => {
  const { code, stderr } = await setup(
    ["2", "URL", "token", "wr0ng", "mine", "again", "", "", "", "s3cret", ""],
    answering,
  );
  assert.equal(code, 0, stderr);
  assert.match(stderr, /Token \[as before\]: /);
  assert.ok(!stderr.includes("wr0ng"));
});

Deno.test("setup: defaults of tunnels are asked for where the server can make one", async () => {
  const withTunnels = (request: Request) =>
    new URL(request.url).pathname === "/healthz"
      ? Response.json({})
      : Response.json({ ...INFO, tunnels: { backends: ["ssh"] } });
  const { code, saved, stdout, stderr, url } = await setup(
    ["2", "URL", "none", "mine", "<", "", "", "", "", "x", "<", "/keys/tunnel", "rewrite"],
    withTunnels,
  );
  assert.equal(code, 0, stderr);
  assert.match(stderr, /can make public tunnels \(ssh\)/);
  assert.deepEqual(parse(saved!).contexts.mine, {
    server: "URL",
    tunnel: { "authtoken-file": "/keys/tunnel", "ingress-host-mode": "rewrite" },
  });
  assert.equal(
    stdout,
    `svc config set-context mine --server ${url} --tunnel-authtoken-file /keys/tunnel ` +
      "--tunnel-ingress-host-mode rewrite --current\n",
  );
  const none = await setup(["2", "URL", "none", "mine", "", ""], withTunnels);
  assert.deepEqual(parse(none.saved!).contexts.mine, { server: "URL" });
});

Deno.test("setup: the path of a CA is looked at when it is typed; user@host is an SSH host", async () => {
  const answers = [
    ...["ssh", "me@127.0.0.1:9", "", "", "", "yes", "/nonexistent/ca.pem", PEM.key, PEM.cert],
    ...["svc.example", "none", "", "save"],
  ];
  const { stderr, saved } = await setup(answers);
  assert.match(stderr, /there is no such file\n/);
  assert.match(stderr, /it holds no certificate in PEM\n/);
  assert.match(saved!, /addr: me@127\.0\.0\.1:9/);
  assert(saved!.includes(PEM.cert));
});
