import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { createLogger } from "../base/log.ts";
import type { Access } from "./access.ts";
import type { Action, Route } from "./route.ts";
import { startTestServer } from "./testing.ts";

const at = (
  path: string,
  handler: Route["handler"],
  more: Partial<Pick<Route, "method">> & { action?: Action | "any" } = {},
): Route => ({ method: "GET", path, action: "any", help: "", handler, ...more });

function capture() {
  const lines: Record<string, unknown>[] = [];
  const log = createLogger({
    level: "debug",
    format: "json",
    write: (line) => lines.push(JSON.parse(line)),
  });
  return { lines, log };
}

Deno.test("server: what a handler throws is a problem with the catalogue's status", async () => {
  await using server = await startTestServer({
    routes: [at("/x", () => {
      throw new SvcError("conflict", "Cannot do it: busy", { detail: { by: "other" } });
    })],
  });
  const response = await fetch(`${server.base}/x`);
  assert.equal(response.status, 409);
  assert.equal(response.headers.get("content-type"), "application/problem+json");
  assert.deepEqual(await response.json(), {
    title: "conflict",
    status: 409,
    detail: "Cannot do it: busy",
    code: "conflict",
    help: "try again when the other operation has ended",
    info: { by: "other" },
  });
});

Deno.test("server: an unforeseen error is logged with its stack and told without its text", async () => {
  const { lines, log } = capture();
  await using server = await startTestServer({
    log,
    routes: [at("/x", () => Promise.reject(new TypeError("/secret/path is odd")))],
  });
  const response = await fetch(`${server.base}/x`, { headers: { "x-request-id": "mine-1" } });
  assert.equal(response.status, 500);
  assert.equal(response.headers.get("x-request-id"), "mine-1");
  const body = await response.text();
  assert.doesNotMatch(body, /secret/);
  const logged = lines.find((line) => line.level === "error")!;
  assert.equal(logged.error, "/secret/path is odd");
  assert.match(String(logged.stack), /TypeError: .*\n.*server_test/);
  assert.equal(logged.request, "mine-1");
});

Deno.test("server: what only the operator can mend is in the log, a caller's mistake is not", async () => {
  const { lines, log } = capture();
  await using server = await startTestServer({
    log,
    routes: [
      at("/full", () => Promise.reject(new SvcError("storage_full", "Cannot write x: no space"))),
      at("/bad", () => Promise.reject(new SvcError("argument_invalid", "Cannot read y: odd"))),
    ],
  });
  for (const [path, status] of [["/full", 507], ["/bad", 400]] as const) {
    const response = await fetch(server.base + path);
    assert.equal(response.status, status);
    await response.body?.cancel();
  }
  const warnings = lines.filter((line) => line.level === "warn");
  assert.deepEqual(warnings.map((line) => line.code), ["storage_full"]);
  assert.equal(warnings[0].error, "Cannot write x: no space");
});

Deno.test("server: unknown paths and methods, in each surface's own form", async () => {
  await using server = await startTestServer({
    routes: [at("/v2/", () => new Response(null, { status: 200 }))],
  });
  const missing = await fetch(`${server.base}/.svc/v1/nothing`);
  assert.equal(missing.status, 404);
  assert.equal((await missing.json()).code, "not_found");
  const registry = await fetch(`${server.base}/v2/nothing`);
  assert.equal(registry.status, 404);
  assert.equal(registry.headers.get("content-type"), "application/json");
  assert.equal((await registry.json()).errors.length, 1);
  const method = await fetch(`${server.base}/v2/`, { method: "DELETE" });
  assert.equal(method.status, 405);
  assert.equal(method.headers.get("allow"), "GET, HEAD");
  assert.equal((await method.json()).errors[0].code, "UNSUPPORTED");
});

Deno.test("server: HEAD has GET's headers and no body, and the body is let go of", async () => {
  const cancelled = Promise.withResolvers<void>();
  await using server = await startTestServer({
    routes: [at("/x", () =>
      new Response(
        new ReadableStream({
          pull: (c) => c.enqueue(new Uint8Array(9)),
          cancel: cancelled.resolve,
        }),
        { headers: { "content-length": "900", "x-mark": "1" } },
      ))],
  });
  const response = await fetch(`${server.base}/x`, { method: "HEAD" });
  assert.equal(response.headers.get("content-length"), "900");
  assert.equal(response.headers.get("x-mark"), "1");
  assert.equal(await response.text(), "");
  await cancelled.promise;
});

Deno.test("server: one access line a request, health at debug", async () => {
  const { lines, log } = capture();
  await using server = await startTestServer({
    log,
    routes: [at("/x", () => new Response(new Blob(["12345"]).stream()))],
  });
  await (await fetch(`${server.base}/x?secret=1`)).text();
  await (await fetch(`${server.base}/healthz`)).text();
  while (lines.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  const [first, health] = lines;
  assert.equal(first.level, "info");
  assert.equal(first.method, "GET");
  assert.equal(first.path, "/x");
  assert.equal(first.status, 200);
  assert.equal(first.bytes, 5);
  assert.equal(first.subject, "anonymous");
  assert.equal(typeof first.durationMs, "number");
  assert.match(String(first.remote), /^127\.0\.0\.1:\d+$/);
  assert.equal(health.level, "debug");
});

Deno.test("server: authentication and authorization stand before every route but the open ones", async () => {
  const access: Access = {
    methods: ["token"],
    authenticate: (request) =>
      request.headers.has("authorization")
        ? Promise.resolve({ subject: request.headers.get("authorization")!, scopes: [] })
        : undefined,
    authorize: (route, identity) => {
      if (route.action === "deploy" && identity.subject !== "root") {
        throw new SvcError("denied", `Cannot do it: action ${route.action} is missing`);
      }
    },
    allows: () => true,
    challenge: (_request, path) => `${path.startsWith("/v2") ? "Basic" : "Bearer"} realm="svc"`,
  };
  await using server = await startTestServer({
    deps: { access },
    routes: [
      at("/v2/", () => new Response("in")),
      at("/x", ({ identity }) => new Response(identity.subject), { action: "deploy" }),
    ],
  });
  const get = (path: string, as?: string) =>
    fetch(`${server.base}${path}`, { headers: as ? { authorization: as } : {} });
  const registry = await get("/v2/");
  assert.equal(registry.status, 401);
  assert.equal(registry.headers.get("www-authenticate"), 'Basic realm="svc"');
  assert.equal((await registry.json()).errors[0].code, "UNAUTHORIZED");
  const api = await get("/x");
  assert.equal(api.status, 401);
  assert.equal(api.headers.get("www-authenticate"), 'Bearer realm="svc"');
  await api.body?.cancel();
  const denied = await get("/x", "guest");
  assert.equal(denied.status, 403);
  assert.match((await denied.json()).detail, /action deploy/);
  assert.equal(await (await get("/x", "root")).text(), "root");
  assert.equal((await (await get("/.well-known/svc")).json()).auth[0], "token");
  assert.equal((await get("/healthz")).status, 200);
});

Deno.test("server: pages of other sites are refused, our own are not", async () => {
  await using server = await startTestServer({ routes: [at("/x", () => new Response("in"))] });
  const get = async (path: string, origin: string) => {
    const response = await fetch(server.base + path, { headers: { origin } });
    await response.body?.cancel();
    return response.status;
  };
  assert.equal(await get("/x", "http://evil.example"), 403);
  assert.equal(await get("/x", "null"), 403);
  assert.equal(await get("/x", server.base), 200);
  assert.equal(await get("/healthz", "http://evil.example"), 200);
});

Deno.test("server: draining turns readiness off, refuses what is new, lets what runs end", async () => {
  const gate = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  await using server = await startTestServer({
    routes: [at("/slow", async () => {
      started.resolve();
      await gate.promise;
      return new Response("whole");
    })],
  });
  const get = async (path: string) => {
    const response = await fetch(`${server.base}${path}`);
    await response.body?.cancel();
    return response.status;
  };
  assert.equal(await get("/readyz"), 200);
  const slow = fetch(`${server.base}/slow`);
  await started.promise;
  server.lifecycle.drain();
  assert.equal(server.lifecycle.stopping.aborted, true);
  assert.equal(await get("/readyz"), 503);
  assert.equal(await get("/healthz"), 200);
  assert.equal(await get("/slow"), 503);
  assert.equal(await server.lifecycle.idle(10), false);
  gate.resolve();
  assert.equal(await (await slow).text(), "whole");
  assert.equal(await server.lifecycle.idle(60_000), true);
});

Deno.test("server: information", async () => {
  await using server = await startTestServer({
    backend: { caps: { exec: () => Promise.reject() } },
  });
  const info = await (await fetch(`${server.base}/.svc/v1/info`)).json();
  assert.deepEqual(info, {
    version: "1.2.3",
    buildTags: [],
    registry: "localhost:5000",
    registryMode: "store",
    registryWritable: true,
    build: { at: "here" },
    deploy: { backend: "fake", available: true, caps: ["exec"] },
    ingress: { enabled: false },
    tunnels: { backends: [] },
    limits: { buildConcurrency: 2 },
    identity: { subject: "anonymous", scopes: [] },
  });
});

Deno.test("server: information says why it cannot deploy", async () => {
  await using server = await startTestServer({
    deps: {
      deploy: {
        name: "bare",
        backend: () =>
          Promise.reject(
            new SvcError("prerequisite_missing", "Cannot run runc: it is not on PATH"),
          ),
      },
    },
  });
  const { deploy } = await (await fetch(`${server.base}/.svc/v1/info`)).json();
  assert.equal(deploy.available, false);
  assert.match(deploy.reason, /Cannot run runc.*install what is named/);
});
