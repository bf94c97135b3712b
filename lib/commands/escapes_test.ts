/** What a server, an image or a workload says reaches no terminal as a command. */
import assert from "node:assert/strict";
import { ndjson, svcFake } from "../../test/fixtures/cli.ts";
import { SvcError } from "../base/errors.ts";

const EVIL = "x\x1b[2J\x1b]52;c;cm0gLXJm\x07\x9b31m\rsvc: all is well";

// deno-lint-ignore no-control-regex -- what a terminal obeys
const OBEYED = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;

const STATUS = {
  name: "web",
  state: "failed",
  image: EVIL,
  ports: [],
  instances: [{ id: EVIL, replica: 0, state: "failed", image: EVIL, error: EVIL, restarts: 0 }],
  createdAt: "2026-01-01T00:00:00Z",
  updatedAt: "2026-01-01T00:00:00Z",
  warnings: [EVIL],
  error: `Cannot start: its last log lines:\n  ${EVIL}`,
};

function answer(request: Request, { pathname }: URL): Response {
  if (pathname.endsWith("/info")) {
    return Response.json({
      version: EVIL,
      registry: EVIL,
      buildTags: [EVIL],
      deploy: { backend: EVIL, available: false, reason: EVIL, caps: [EVIL] },
      ingress: { enabled: true, domain: EVIL },
      tunnels: { backends: [EVIL] },
      limits: { buildConcurrency: 1 },
      identity: { subject: EVIL, scopes: [EVIL] },
    });
  }
  if (pathname.endsWith("/logs")) {
    const frame = { instance: "a", stream: "stdout", time: "2026-01-01T00:00:00Z", line: EVIL };
    return ndjson(frame);
  }
  if (pathname.endsWith("/deployments") && request.method === "GET") return Response.json([STATUS]);
  if (pathname.endsWith("/deployments/web") && request.method === "GET") {
    return Response.json(STATUS);
  }
  if (pathname.endsWith("/top")) {
    return Response.json([{ instance: EVIL, titles: [EVIL], processes: [[EVIL]] }]);
  }
  if (pathname.endsWith("/volumes")) {
    return Response.json([{ name: EVIL, driver: EVIL, labels: {}, usedBy: [EVIL] }]);
  }
  if (pathname.endsWith("/events")) {
    return ndjson({ type: EVIL, time: EVIL, deployment: EVIL, instance: EVIL });
  }
  if (pathname.endsWith("/stats")) {
    const counters = { cpu: 1, memory: 1, processes: 1, blockRead: 1, blockWritten: 1 };
    return ndjson({ time: "2026-01-01T00:00:00Z", instance: EVIL, ...counters });
  }
  if (pathname.endsWith("/well-known/svc")) return Response.json({ api: "/.svc/v1", auth: [EVIL] });
  throw new SvcError("deploy_failed", `Cannot do it: its last log lines:\n  ${EVIL}`, {
    help: EVIL,
  });
}

Deno.test("info, status, lists, doctor and errors show escapes instead of sending them", async () => {
  const commands = [
    ["info"],
    ["status", "web"],
    ["ps"],
    ["doctor"],
    ["rm", "web"],
    ["stop", "web"],
    ["gc"],
    ["activity"],
    ["deploy", "-f", "-"],
    ["info", "--output", "json"],
    ["ps", "--output", "json"],
    ["health"],
    ["top", "web"],
    ["volume", "ls"],
    ["events"],
    ["events", "--output", "json"],
    ["stats", "web"],
    ["kill", "web"],
  ];
  for (const command of commands) {
    const stdin = "name: web\nimage: a\n";
    const { stdout, stderr } = await svcFake(command, { handler: answer, stdin });
    assert(!OBEYED.test(stdout), `${command}: ${JSON.stringify(stdout)}`);
    assert(!OBEYED.test(stderr), `${command}: ${JSON.stringify(stderr)}`);
    assert.match(stdout + stderr, /\[2J/, command.join(" "));
  }
  const { stdout } = await svcFake(["ps", "--output", "json"], { handler: answer });
  assert.deepEqual(JSON.parse(stdout).image, EVIL);
});

Deno.test("what a workload prints is handed on as it came", async () => {
  const { stdout } = await svcFake(["logs", "web"], { handler: answer });
  assert.equal(stdout, EVIL + "\n");
});
