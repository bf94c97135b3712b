/** The rows of SPEC.md's tables PortForward and KubeAuth, against a stand-in for a cluster's API server. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { stringify } from "yaml";
import { svcFake } from "../../../test/fixtures/cli.ts";
import { startKubeStub } from "../../../test/peers/kube_stub.ts";
import { SvcError } from "../../base/errors.ts";
import { kubeAccess } from "./kubeconfig.ts";
import { mintKubeToken } from "./token.ts";

async function backend(answer: (request: Request) => Response) {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answer);
  return { port: server.addr.port, [Symbol.asyncDispose]: () => server.shutdown() };
}

async function svc(args: string[], context: unknown, env: Record<string, string>) {
  const file = await Deno.makeTempFile({ suffix: ".json" });
  await Deno.writeTextFile(
    file,
    JSON.stringify({ "current-context": "t", contexts: { t: context } }),
  );
  const result = await svcFake(args, { env: { ...env, SVC_SERVER: "", SVC_CONFIG: file } });
  await Deno.remove(file);
  return result;
}

const forward = { "kube-context": "test", service: "svc", "remote-port": 80 };

Deno.test("PortForward rows: kube-context, namespace, service, remote-port by a ready pod and its named port", async () => {
  await using api = await backend(() => Response.json({ registry: "in the cluster" }));
  await using kube = await startKubeStub(api.port);
  const good = await svc(["info"], { "port-forward": forward }, kube.env);
  assert.equal(good.code, 0, good.stderr);
  assert.match(good.stdout, /in the cluster/);
  assert.ok(
    kube.calls.includes("GET /api/v1/namespaces/team/services/svc Bearer kube-token"),
    kube.calls.join(),
  );
  const named = await svc(["info"], { "port-forward": { ...forward, namespace: "ns" } }, kube.env);
  assert.equal(named.code, 0, named.stderr);
  assert.ok(kube.calls.some((call) => call.startsWith("GET /api/v1/namespaces/ns/pods ")));

  const said = async (more: object, text: RegExp) => {
    const { code, stderr } = await svc(
      ["info"],
      { "port-forward": { ...forward, ...more } },
      kube.env,
    );
    assert.notEqual(code, 0);
    assert.match(stderr, text);
  };
  await said(
    { "remote-port": 81 },
    /Cannot forward to service team\/svc: it has no port 81, but 80/,
  );
  await said({ service: "none" }, /Cannot use the cluster at .*services\/none not found/);
  await said({ "kube-context": "missing" }, /it has no context "missing"/);
  kube.ready = false;
  await said({}, /none of its 2 pods is ready/);
});

Deno.test("PortForward: a forward that breaks is opened again for the next call", async () => {
  let calls = 0;
  await using api = await backend(() => Response.json({ calls: ++calls }));
  await using kube = await startKubeStub(api.port);
  const { openWay } = await import("../transport/open.ts");
  const { createClient } = await import("../client.ts");
  const { NOBODY } = await import("../prompt.ts");
  const server = "http://svc.team:80";
  const signal = AbortSignal.timeout(60_000);
  const target = {
    server,
    source: "test",
    transport: { kind: "kube" as const, settings: forward },
    credential: { kind: "none" as const },
    viaServer: { value: false, source: "default" },
    conduit: { value: "port-forward", source: "default" },
    settings: {},
  };
  await using way = await openWay({ target, env: kube.env, prompt: NOBODY, signal });
  const client = createClient({ server, way, signal });
  assert.equal(client.resumes, true);
  for (let i = 1; i <= 3; i++) {
    assert.deepEqual(await client.json("GET /openapi.json"), { calls: i });
    kube.drop();
  }
});

Deno.test("KubeAuth rows: kube-context, namespace, service-account, audience, expiration-seconds", async () => {
  await using kube = await startKubeStub(1);
  const settings = {
    "kube-context": "test",
    "service-account": "ci",
    audience: "svc",
    "expiration-seconds": 600,
  };
  const { token, expiresAt } = await mintKubeToken(settings, kube.env);
  assert.equal(token, "of-the-cluster");
  assert.ok(expiresAt.getTime() > Date.now());
  assert.deepEqual((kube.bodies[0] as { spec: unknown }).spec, {
    audiences: ["svc"],
    expirationSeconds: 600,
  });
  assert.match(
    kube.calls[0],
    /^POST \/api\/v1\/namespaces\/team\/serviceaccounts\/ci\/token Bearer kube-token$/,
  );
  await mintKubeToken({ ...settings, namespace: "ns" }, kube.env);
  assert.match(kube.calls[1], /namespaces\/ns\//);
  await assert.rejects(
    mintKubeToken({ ...settings, "service-account": "none" }, kube.env),
    (error) => error instanceof SvcError && error.code === "not_found",
  );
});

Deno.test("kube-auth's token is what the server is sent; the cluster of port-forward is the default", async () => {
  const seen: (string | null)[] = [];
  await using api = await backend((request) => {
    seen.push(request.headers.get("authorization"));
    return Response.json({ identity: {} });
  });
  await using kube = await startKubeStub(api.port);
  const context = { "port-forward": forward, "kube-auth": { "service-account": "ci" } };
  const { code, stderr } = await svc(["info"], context, kube.env);
  assert.equal(code, 0, stderr);
  assert.deepEqual(seen, ["Bearer of-the-cluster"]);
});

Deno.test("kubeconfig: exec plugins, data before files, several files, nothing selected", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const plugin = join(folder, "plugin");
    await Deno.writeTextFile(
      plugin,
      '#!/bin/sh\necho \'{"kind":"ExecCredential","status":{"token":"by-plugin"}}\'\n',
      { mode: 0o755 },
    );
    await Deno.writeTextFile(join(folder, "ca.pem"), "FROM FILE");
    const first = join(folder, "a");
    const second = join(folder, "b");
    await Deno.writeTextFile(
      first,
      stringify({
        contexts: [{ name: "c", context: { cluster: "k", user: "u" } }],
        "current-context": "c",
      }),
    );
    await Deno.writeTextFile(
      second,
      stringify({
        "current-context": "other",
        clusters: [{
          name: "k",
          cluster: {
            server: "https://k:6443/",
            "certificate-authority": "ca.pem",
            "tls-server-name": "kube",
          },
        }],
        users: [{ name: "u", user: { exec: { command: plugin } } }],
      }),
    );
    const access = await kubeAccess(undefined, { KUBECONFIG: `${first}:${second}` });
    assert.deepEqual(access, {
      server: "https://k:6443",
      namespace: "default",
      ca: "FROM FILE",
      insecure: false,
      serverName: "kube",
      authorization: "Bearer by-plugin",
    });
    await assert.rejects(
      kubeAccess(undefined, { KUBECONFIG: join(folder, "none") }),
      /it selects no context/,
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
