import assert from "node:assert/strict";
import fc from "fast-check";
import { ndjson, svcFake } from "../../test/fixtures/cli.ts";
import { runs } from "../../test/fixtures/property.ts";
import { readLogins } from "../api/build_logins.ts";
import { parseDeploySpec, validateDeploySpec } from "../api/deploy_spec_parse.ts";
import type { DeploymentStatus, LogFrame } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import { parseTime } from "./logs.ts";

const status = (more: Partial<DeploymentStatus> = {}): DeploymentStatus => ({
  name: "web",
  state: "running",
  image: "localhost:5000/app:v1",
  ports: [{ hostIP: "0.0.0.0", host: 8080, container: 80, protocol: "tcp" }],
  instances: [{
    id: "web-0",
    state: "running",
    restarts: 0,
    startedAt: ago(90_000),
    ip: "10.88.0.2",
  }],
  createdAt: ago(3 * 60_000),
  updatedAt: ago(0),
  warnings: [],
  ...more,
});

function ago(ms: number): string {
  return new Date(Date.now() - ms).toISOString();
}

const missing = (name: string) =>
  new SvcError("not_found", `Cannot find deployment ${name}: there is none of that name`);

Deno.test("ps: a table, or a document a line", async () => {
  const rows = [status(), status({ name: "worker", ports: [], state: "failed", instances: [] })];
  const handler = () => Response.json(rows);
  const table = await svcFake(["ps"], { handler });
  assert.equal(table.code, 0);
  assert.equal(
    table.stdout,
    "NAME     IMAGE                   STATE     INSTANCES   PORTS                  AGE\n" +
      "web      localhost:5000/app:v1   running   1/1         0.0.0.0:8080->80/tcp   3m\n" +
      "worker   localhost:5000/app:v1   failed    0/0                                3m\n",
  );
  const json = await svcFake(["ps", "--output", "json"], { handler });
  assert.deepEqual(json.stdout.trim().split("\n").map((l) => JSON.parse(l)), rows);
});

Deno.test("ps, status: a deployment is paused where all its instances are", async () => {
  const [instance] = status().instances;
  const paused = { ...instance, state: "paused" as const };
  for (
    const [instances, state] of [[[paused], "paused"], [[paused, instance], "running"]] as const
  ) {
    const one = status({ instances: [...instances] });
    const table = await svcFake(["ps"], { handler: () => Response.json([one]) });
    assert.match(table.stdout, new RegExp(`^web .* ${state} `, "m"));
    const facts = await svcFake(["status", "web"], { handler: () => Response.json(one) });
    assert.match(facts.stdout, new RegExp(`^State: {6}${state}$`, "m"));
  }
});

Deno.test("status: facts, instances, warnings on standard error", async () => {
  const { code, stdout, stderr, requests } = await svcFake(["status", "web"], {
    handler: () =>
      Response.json(status({ error: "line one\nline two", warnings: ["dns: not honoured"] })),
  });
  assert.equal(code, 0);
  assert.deepEqual(requests, ["GET /deployments/web"]);
  assert.match(stdout, /^Name: {7}web\nState: {6}running\n/);
  assert.match(stdout, /^Error: {6}line one\n {12}line two$/m);
  assert.match(stdout, /^web-0 +running +0 +10\.88\.0\.2 +9\ds$/m);
  assert.equal(stderr, "svc: warning: dns: not honoured\n");
});

Deno.test("status: labels, one a line", async () => {
  const { stdout } = await svcFake(["status", "web"], {
    handler: () => Response.json(status({ labels: { team: "shop", tier: "1" } })),
  });
  assert.match(stdout, /^Labels: {5}team=shop\n {12}tier=1$/m);
});

Deno.test("status -o yaml: the spec, which is the same when it is read again", async () => {
  const dictionary = fc.dictionary(
    fc.oneof(fc.string({ unit: "grapheme" }), fc.constantFrom("<<", "yes", "0440", "~", "a: b")),
    fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.string({
        unit: fc.constantFrom("\n", "\r", "\t", " ", "#", ":", "é", "\x7f", "\x85", "\u2028"),
      }),
      fc.constantFrom("<<", "null", "1e3", "0o7", "2001-01-01", "- a", "{a}", "|", "\ufeff"),
    ),
    { noNullPrototype: true },
  ).filter((env) => Object.keys(env).every((name) => /^[^=\p{Cc}]+$/u.test(name)));
  await fc.assert(
    fc.asyncProperty(dictionary, async (env) => {
      const spec = validateDeploySpec({
        name: "web",
        image: "app",
        env,
        command: Object.values(env),
      });
      const { stdout, requests, code } = await svcFake(["status", "web", "-o", "yaml"], {
        handler: () => Response.json(spec),
      });
      assert.deepEqual([code, requests], [0, ["GET /deployments/web/spec"]]);
      assert.deepEqual(parseDeploySpec(stdout), spec);
    }),
    runs(60),
  );
});

Deno.test("status: where ingress leads here", async () => {
  const at = { path: "/", pathType: "Prefix", deployment: "web", port: 80, tls: false } as const;
  const { stdout } = await svcFake(["status", "web"], {
    handler: () =>
      Response.json(status({
        ingress: [
          { ...at, host: "a.test", url: "http://a.test:8080/" },
          { ...at, host: "b.test" },
          { ...at, host: "c.test", path: "/api" },
        ],
      })),
  });
  assert.match(stdout, /^Ingress: {4}http:\/\/a\.test:8080\/, b\.test, c\.test\/api$/m);
});

Deno.test("names cannot lead to another path", async () => {
  const { requests } = await svcFake(["status", "../info?x"], {
    handler: () => Response.json(status()),
  });
  assert.deepEqual(requests, ["GET /deployments/..%2Finfo%3Fx"]);
});

Deno.test("stop and rm: each name on its own, the first failure's code", async () => {
  const handler = (_: Request, url: URL) => {
    if (url.pathname.includes("gone")) throw missing("gone");
    return Response.json(status());
  };
  const stop = await svcFake(["stop", "a", "gone", "b"], { handler });
  assert.equal(stop.code, 1);
  assert.equal(stop.stdout, "a\nb\n");
  assert.match(stop.stderr, /^svc: Cannot find deployment gone/);
  assert.equal(stop.requests.length, 3);
  assert.equal(stop.requests[0], "POST /deployments/a/stop");

  const remove = (request: Request, url: URL) => {
    assert.equal(request.method, "DELETE");
    handler(request, url);
    return new Response(null, { status: 204 });
  };
  assert.equal((await svcFake(["rm", "a", "gone"], { handler: remove })).code, 1);
  const forced = await svcFake(["rm", "-f", "a", "gone"], { handler: remove });
  assert.deepEqual([forced.code, forced.stdout, forced.stderr], [0, "a\ngone\n", ""]);

  const nobody = await svcFake(["stop", "a", "b"]);
  assert.equal(nobody.code, 1);
  assert.equal(nobody.stderr.match(/Cannot reach/g)?.length, 1);
});

const frames: LogFrame[] = [
  { time: "2026-01-02T03:04:05.000000001Z", instance: "web-0", stream: "stdout", line: "out" },
  { time: "2026-01-02T03:04:06.000000001Z", instance: "web-0", stream: "stderr", line: "err" },
];

function logServer(instances: number, ...lines: unknown[]) {
  return (_: Request, url: URL) =>
    url.pathname.endsWith("/logs")
      ? ndjson(...lines)
      : Response.json(status({ instances: Array(instances).fill(status().instances[0]) }));
}

Deno.test("logs: each line to its stream; times and instances where asked for", async () => {
  const plain = await svcFake(["logs", "web"], { handler: logServer(1, ...frames) });
  assert.deepEqual([plain.code, plain.stdout, plain.stderr], [0, "out\n", "err\n"]);
  const timed = await svcFake(["logs", "-t", "--tail", "5", "-f", "web"], {
    handler: logServer(2, frames[0]),
  });
  assert.equal(timed.stdout, "web-0 | 2026-01-02T03:04:05.000000001Z out\n");
  assert.equal(timed.requests.at(-1), "GET /deployments/web/logs?follow=true&tail=5");
  const json = await svcFake(["logs", "--output", "json", "web"], {
    handler: logServer(1, ...frames),
  });
  assert.deepEqual(json.stdout.trim().split("\n").map((l) => JSON.parse(l)), frames);
});

Deno.test("logs: a failure in mid-stream is a failure", async () => {
  const error = {
    title: "",
    status: 500,
    code: "internal",
    detail: "Cannot read log: gone",
    help: "h",
  };
  const { code, stdout, stderr } = await svcFake(["logs", "web"], {
    handler: logServer(1, frames[0], { type: "error", error }),
  });
  assert.deepEqual([code, stdout, stderr], [1, "out\n", "svc: Cannot read log: gone\n  h\n"]);
  const bad = await svcFake(["logs", "--tail", "x", "web"]);
  assert.equal(bad.code, 2);
});

Deno.test("logs: the ways to write a time", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  assert.equal(parseTime("10m", "--since", now).toISOString(), "2026-01-01T23:50:00.000Z");
  assert.equal(parseTime("2026-01-01", "--since", now).toISOString(), "2026-01-01T00:00:00.000Z");
  assert.equal(parseTime("1767225600.5", "--since", now).getTime(), 1767225600500);
  for (const bad of ["yesterday", "2026-13-01", ""]) {
    assert.throws(() => parseTime(bad, "--since", now), /Cannot read --since/);
  }
});

Deno.test("deploy: a spec with flags over it, progress and warnings on standard error", async () => {
  let body: Record<string, unknown> = {};
  const handler = async (request: Request) => {
    body = await request.json();
    return ndjson(
      { type: "progress", message: "pulling app:v2" },
      {
        type: "result",
        result: { action: "created", deployment: status({ warnings: ["init: ignored"] }) },
      },
    );
  };
  const spec = "name: web\nimage: app:v1\nenv: [A=1]\nports: ['81:81']\n";
  const args = [
    "deploy",
    "-f",
    "-",
    "--image",
    "app:v2",
    "-p",
    "8080:80",
    "-e",
    "B=2",
    "-e",
    "HOMELESS",
  ];
  const result = await svcFake(args, { handler, stdin: spec });
  assert.equal(result.stderr, "pulling app:v2\nsvc: warning: init: ignored\n");
  assert.equal(result.stdout, "web is deployed; 0.0.0.0:8080->80/tcp\n");
  assert.deepEqual(result.requests, ["PUT /deployments/web"]);
  assert.equal(body.image, "app:v2");
  assert.deepEqual(body.env, { A: "1", B: "2" });
  assert.deepEqual((body.ports as { container: number }[]).map((p) => p.container), [81, 80]);
});

Deno.test("deploy: a file that no flag changes is the server's to read", async () => {
  let sent: unknown[] = [];
  const handler = async (request: Request, url: URL) => {
    sent = [request.headers.get("content-type"), url.searchParams.get("source")];
    sent.push(await request.text());
    return Response.json({ action: "created", deployment: status() });
  };
  const spec = "name: web\nimage: app:v1\n";
  const result = await svcFake(["deploy", "-f", "-"], { handler, stdin: spec });
  assert.deepEqual(sent, ["application/yaml", "standard input", spec]);
  assert.deepEqual(result.requests, ["POST /deployments?source=standard+input"]);
  assert.equal(result.stdout, "web is deployed; 0.0.0.0:8080->80/tcp\n");
});

Deno.test("deploy: an image alone, answered by a plain result", async () => {
  const handler = async (request: Request) => {
    await request.body?.cancel();
    return Response.json({ action: "unchanged", deployment: status() });
  };
  const result = await svcFake(["deploy", "localhost:5000/team/app:v1"], { handler });
  assert.deepEqual(result.requests, ["PUT /deployments/app"]);
  assert.equal(result.stdout, "web is unchanged; 0.0.0.0:8080->80/tcp\n");
});

Deno.test("deploy: the login at the image's registry is sent, and no other one", async () => {
  const home = await Deno.makeTempDir({ prefix: "svc-logins-" });
  try {
    const auths = { "a.test": { auth: btoa("me:hush") }, "b.test": { auth: btoa("never:sent") } };
    await Deno.writeTextFile(`${home}/config.json`, JSON.stringify({ auths }));
    const sent: unknown[] = [];
    const handler = async (request: Request) => {
      const logins = readLogins(request.headers.get("x-svc-registry-logins"));
      sent.push(logins && Object.fromEntries(logins));
      await request.body?.cancel();
      return Response.json({ action: "unchanged", deployment: status() });
    };
    const env = { DOCKER_CONFIG: home };
    const deploy = (args: string[], stdin = "") =>
      svcFake(["deploy", ...args], { handler, env, stdin });
    await deploy(["a.test/app:v1"]);
    await deploy(["-f", "-"], "name: web\nimage: 'a.test/app:v1' # mine\n");
    await deploy(["-f", "-"], '{"name": "web", "image": "c.test/app:v1"}');
    await deploy(["app:v1"]);
    const login = { "a.test": { username: "me", password: "hush" } };
    assert.deepEqual(sent, [login, login, undefined, undefined]);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

Deno.test("deploy: what is wrong is said with its place, before anything is sent", async () => {
  const cases: [string[], string, number, RegExp][] = [
    [
      ["-f", "-", "--name", "x"],
      "name: x\nimage: [a\n",
      2,
      /standard input: line 3, column 1/,
    ],
    [["-f", "/nonexistent/spec.yaml"], "", 2, /\/nonexistent\/spec\.yaml: there is no such file/],
    [[], "", 2, /neither a spec nor an image/],
    [["app", "--image", "b"], "", 2, /the image is given twice/],
    [["app", "-p", "99999:80"], "", 2, /Cannot read --publish "99999:80"/],
    [["app", "-e", "=x"], "", 2, /Cannot read --env "=x"/],
    [["App"], "", 2, /Cannot read image name "App"/],
  ];
  for (const [args, stdin, code, text] of cases) {
    const result = await svcFake(["deploy", ...args], { stdin, handler: () => ndjson() });
    assert.match(result.stderr, text);
    assert.deepEqual([result.code, result.requests], [code, []]);
  }
});

Deno.test("deploy: a connection that ends before the outcome is a failure", async () => {
  const handler = async (request: Request) => {
    await request.body?.cancel();
    return ndjson({ type: "progress", message: "pulling" });
  };
  const result = await svcFake(["deploy", "app"], { handler });
  assert.equal(result.code, 1);
  assert.match(result.stderr, /Cannot tell how the deployment of app ended/);
});

Deno.test("info: whatever the server says, in lines", async () => {
  const info = { version: "1", buildTags: [], deploy: { backend: "bare", available: true } };
  const { stdout } = await svcFake(["info"], { handler: () => Response.json(info) });
  assert.match(
    stdout,
    /^Server: .*\nVersion: 1\nBuild tags: none\nDeploy:\n {2}Backend: bare\n {2}Available: yes\n$/,
  );
});
