/** Bad input and the client's own commands, on the real executable, mostly without a server. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { e2eTest, EXECUTABLE, freePort, startServer, svc } from "./harness.ts";

const NEEDS = { files: [EXECUTABLE] };

e2eTest("version says what this executable is", NEEDS, async () => {
  const text = await svc(["version"]);
  assert.deepEqual([text.code, text.stderr], [0, ""]);
  assert.match(text.stdout, /^svc \d+\.\d+\.\d+\ncommit: .+\nform: \w+\nbuild tags: .+\ndeno: /);
  const licenses = await svc(["version", "--licenses"]);
  assert.match(licenses.stdout, /^# Licenses\n[^]*\| zod@[^]*Permission is hereby granted/);
  const json = JSON.parse((await svc(["version", "--output", "json"])).stdout);
  assert.equal(typeof json.form, "string");
  assert.ok(Array.isArray(json.tags));
});

e2eTest(
  "a profile is read and written: packages that load late are whole in the executable",
  NEEDS,
  async () => {
    const folder = await Deno.makeTempDir();
    const env = { SVC_CONFIG: join(folder, "svc", "config.yaml") };
    const set = await svc(["config", "set-context", "a", "--server", "http://127.0.0.1:1"], {
      env,
    });
    assert.equal(set.code, 0, set.stderr);
    const view = await svc(["config", "view"], { env });
    assert.deepEqual([view.code, view.stderr], [0, ""]);
    assert.match(view.stdout, /server: http:\/\/127\.0\.0\.1:1/);
    await Deno.remove(folder, { recursive: true });
  },
);

e2eTest("help goes to standard output and ends with 0", NEEDS, async () => {
  for (const args of [[], ["--help"], ["help", "build"], ["exec", "--help"]]) {
    const { code, stdout, stderr } = await svc(args);
    assert.deepEqual([code, stderr], [0, ""], args.join(" "));
    assert.match(stdout, /^Usage: svc /);
  }
});

e2eTest("usage errors end with 2, failures with 1; both say what to do", NEEDS, async () => {
  const digest = `sha256:${"a".repeat(64)}`;
  const cases: [string[], number, RegExp][] = [
    [["biuld", "."], 2, /Cannot run biuld: unknown command; did you mean build\?/],
    [
      ["build", "--taget", "x", "."],
      2,
      /Cannot read --taget: unknown flag; did you mean --target\?/,
    ],
    [["build", "-t", "UPPER:v1", "."], 2, /Cannot read image name "UPPER:v1"/],
    [["build", "-t", `app@${digest}`, "."], 2, /a digest is what a build results in/],
    [["build", "/nonexistent/context"], 2, /\/nonexistent\/context: there is no such file/],
    [["build"], 2, /CONTEXT is missing/],
    [["deploy", "-f", "/nonexistent/spec.yaml"], 2, /there is no such file/],
    [["deploy", "app", "-p", "80:70000"], 2, /Cannot read --publish "80:70000"/],
    [["logs", "--since", "yesterday", "web"], 2, /Cannot read --since "yesterday"/],
    [["ps", "--output", "xml"], 2, /"xml" is not one of auto, plain, fancy, json/],
    [["ps", "--server", "ftp://host"], 2, /Cannot use server "ftp:\/\/host"/],
    [["exec", "-it", "web", "sh"], 2, /the input device is not a terminal/],
    [["ps"], 1, /Cannot reach http:\/\/127\.0\.0\.1:1/],
  ];
  for (const [args, code, text] of cases) {
    const result = await svc(args);
    assert.match(result.stderr, text);
    assert.match(result.stderr, /^svc: Cannot .+\n {2}\S/s);
    assert.deepEqual([result.code, result.stdout], [code, ""], args.join(" "));
  }
});

e2eTest("a malformed spec is reported with line and column", NEEDS, async () => {
  await using server = await startServer({ env: { SVC_DEPLOY_BACKEND: "dockerhost" } });
  const deploy = (stdin: string, ...flags: string[]) =>
    server.svc(["deploy", "-f", "-", ...flags], { stdin });
  const broken = "name: web\nports:\n  - {container: 80\n";
  const wrong = "name: web\nimage: app\nports:\n  - container: 70000\n";
  // Without flags the server reads the spec, with flags the client does.
  for (const flags of [[], ["--name", "web"]]) {
    const malformed = await deploy(broken, ...flags);
    assert.equal(malformed.code, 2);
    assert.match(malformed.stderr, /Cannot read standard input: line \d+, column \d+: /);
    const invalid = await deploy(wrong, ...flags);
    assert.equal(invalid.code, 2);
    assert.match(invalid.stderr, /ports\[0\]\.container: .*\(line 4, column 16\)/);
  }
  const missing = await deploy("name: web\nimage: app:v1\n");
  assert.equal(missing.code, 1);
  assert.match(
    missing.stderr,
    /Cannot reach the Docker daemon at unix:.*: there is no such socket\n.*SVC_DEPLOY_BACKEND=bare/,
  );
});

e2eTest("a refused connection names the server and what to do", NEEDS, async () => {
  const SVC_SERVER = `http://127.0.0.1:${freePort()}`;
  const { code, stderr } = await svc(["ps"], { env: { SVC_SERVER } });
  assert.equal(code, 1);
  assert.equal(
    stderr,
    `svc: Cannot reach ${SVC_SERVER}: connection refused\n  start \`svc serve\`, or set SVC_SERVER\n`,
  );
});

e2eTest(
  "a proxy of the environment is not asked for this machine's own server",
  NEEDS,
  async () => {
    const server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen: () => {} },
      () => Response.json([]),
    );
    const env = { HTTP_PROXY: "http://127.0.0.1:9", http_proxy: "http://127.0.0.1:9" };
    for (const host of ["127.0.0.1", "localhost"]) {
      const SVC_SERVER = `http://${host}:${server.addr.port}`;
      const { code, stderr } = await svc(["ps"], { env: { ...env, SVC_SERVER } });
      assert.deepEqual([code, stderr], [0, ""]);
    }
    await server.shutdown();
  },
);

e2eTest("a reader that goes away ends svc quietly", { ...NEEDS, commands: ["bash"] }, async () => {
  const script = '"$0" help build | true; echo "${PIPESTATUS[0]}"';
  const { stdout, stderr } = await new Deno.Command("bash", {
    args: ["-c", script, EXECUTABLE],
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  assert.deepEqual([decoder.decode(stdout), decoder.decode(stderr)], ["0\n", ""]);
});

e2eTest("an interrupt ends a waiting build with 130 and closes its connection", NEEDS, async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-cli-" });
  const { promise: gone, resolve } = Promise.withResolvers<void>();
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      // A server without sessions.
      if (request.method === "GET") return new Response(null, { status: 404 });
      for await (const _ of request.body ?? []) { /* only its end counts */ }
      const event = JSON.stringify({ type: "vertex", id: "a", name: "RUN sleep" }) + "\n";
      const body = new ReadableStream<Uint8Array>({
        start(stream) {
          stream.enqueue(new TextEncoder().encode(event));
          arrive();
        },
        cancel: () => resolve(),
      });
      return new Response(body, { headers: { "content-type": "application/x-ndjson" } });
    },
  );
  try {
    await Deno.writeTextFile(join(root, "Dockerfile"), "FROM scratch\n");
    const child = new Deno.Command(EXECUTABLE, {
      args: ["build", root],
      env: { SVC_SERVER: `http://127.0.0.1:${server.addr.port}` },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    await arrived;
    child.kill("SIGINT");
    const { code, stdout, stderr } = await child.output();
    const decoder = new TextDecoder();
    assert.deepEqual([code, decoder.decode(stdout), decoder.decode(stderr)], [130, "", ""]);
    await gone;
  } finally {
    await server.shutdown();
    await Deno.remove(root, { recursive: true });
  }
});
