import assert from "node:assert/strict";
import { join } from "node:path";
import { svcFake } from "../../test/fixtures/cli.ts";
import { equivalent } from "./setup.ts";
import { contextOf } from "./setup/steps.ts";

async function setup(answers: string[], handler?: (request: Request) => Response) {
  const folder = await Deno.makeTempDir();
  const server = handler &&
    Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, handler);
  const url = server ? `http://127.0.0.1:${server.addr.port}` : "";
  const file = join(folder, "config.yaml");
  try {
    const result = await svcFake(["setup"], {
      env: { SVC_CONFIG: file, SVC_SERVER: "" },
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

Deno.test("setup: every scenario as a context and as a command", () => {
  const ssh = contextOf({
    scenario: "ssh",
    addr: "lab",
    remoteAddr: "127.0.0.1:5000",
    auth: "key",
    identity: "~/.ssh/id",
  });
  assert.equal(
    equivalent("lab", ssh),
    "svc config set-context lab --ssh-addr lab --ssh-remote-addr 127.0.0.1:5000 " +
      "--key-auth-identity-file ~/.ssh/id --current",
  );
  const cluster = contextOf({
    scenario: "cluster",
    namespace: "ns",
    service: "svc",
    remotePort: "80",
    auth: "kube",
    account: "ci",
    audience: "svc",
  });
  assert.equal(
    equivalent("a b", cluster),
    "svc config set-context 'a b' --pf-namespace ns --pf-service svc --pf-remote-port 80 " +
      "--kube-auth-service-account ci --kube-auth-audience svc --current",
  );
  const secure = contextOf({
    scenario: "remote",
    server: "https://x",
    ca: "/ca.pem",
    auth: "agent",
    fingerprint: `SHA256:${"A".repeat(43)}`,
  });
  assert.deepEqual(secure.tls, { "ca-cert": "/ca.pem" });
  assert.deepEqual(contextOf({ scenario: "local", port: "5001", auth: "none" }), {
    server: "http://localhost:5001",
  });
});
