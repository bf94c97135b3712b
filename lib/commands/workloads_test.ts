/** Commands that watch workloads and change their instances, against a scripted server. */
import assert from "node:assert/strict";
import { FakeKeyboard, ndjson, svcFake } from "../../test/fixtures/cli.ts";
import { SvcError } from "../base/errors.ts";
import { interruption } from "../base/terminal.ts";

const BASE = Date.parse("2026-01-01T00:00:00Z");

const sample = (instance: string, second: number, cpuSeconds: number) => ({
  time: new Date(BASE + second * 1000).toISOString(),
  instance,
  cpu: cpuSeconds * 1e9,
  memory: 64 << 20,
  memoryLimit: 128 << 20,
  processes: 3,
  blockRead: 1024,
  blockWritten: 2048,
  received: 10,
  sent: 20,
});

const status = (name: string, more: Record<string, unknown> = {}) => ({
  ...{ name, state: "running", image: "app", ports: [], instances: [], warnings: [] },
  ...{ createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z" },
  ...more,
});

Deno.test("kill, pause, unpause: each name by itself, after a failure the others", async () => {
  const handler = (_: Request, { pathname }: URL) => {
    if (pathname.includes("/gone/")) throw new SvcError("not_found", "Cannot do it: it is gone");
    return new Response(null, { status: 204 });
  };
  const killed = await svcFake(["kill", "-s", "HUP", "web", "gone", "db"], { handler });
  assert.deepEqual([killed.code, killed.stdout], [1, "web\ndb\n"]);
  assert.match(killed.stderr, /^svc: Cannot do it: it is gone\n/);
  assert.deepEqual(killed.requests, [
    "POST /deployments/web/signal?signal=HUP",
    "POST /deployments/gone/signal?signal=HUP",
    "POST /deployments/db/signal?signal=HUP",
  ]);
  const one = await svcFake(["pause", "--instance", "web-1", "web"], { handler });
  assert.deepEqual(one.requests, ["POST /deployments/web/pause?instance=web-1"]);
  assert.deepEqual((await svcFake(["unpause", "web"], { handler })).requests, [
    "POST /deployments/web/unpause",
  ]);
  const wrong = await svcFake(["kill", "-s", "HUPP", "web"], { handler });
  assert.deepEqual([wrong.code, wrong.requests], [2, []]);
});

Deno.test("top: the processes, of several instances each under its name", async () => {
  const titles = ["PID", "CMD"];
  const list = (instance: string) => ({ instance, titles, processes: [["1", "sleep 9"], ["7"]] });
  const one = await svcFake(["top", "web"], { handler: () => Response.json([list("web-0")]) });
  assert.equal(one.stdout, "PID   CMD\n1     sleep 9\n7\n");
  const handler = () => Response.json([list("web-0"), list("web-1")]);
  const two = await svcFake(["top", "web"], { handler });
  assert.match(two.stdout, /^web-0:\nPID {3}CMD\n[^]*\n\nweb-1:\nPID/);
  const json = await svcFake(["top", "--output", "json", "web"], { handler });
  assert.deepEqual(json.stdout.trim().split("\n").map((line) => JSON.parse(line).instance), [
    "web-0",
    "web-1",
  ]);
});

Deno.test("stats --no-stream: two samples make a reading", async () => {
  let asked = 0;
  const handler = (_: Request, { pathname }: URL) => {
    if (pathname.endsWith("/deployments")) {
      return Response.json([status("web"), status("off", { state: "stopped" })]);
    }
    const second = asked++;
    return ndjson(sample("web-1", second, second * 2), sample("web-0", second, second / 2));
  };
  const { code, stdout, requests } = await svcFake(["stats", "--no-stream"], { handler });
  assert.equal(code, 0);
  const [, ...rows] = stdout.trim().split("\n").map((line) => line.split(/ {2,}/));
  assert.deepEqual(rows, [
    ["web-0", "50.00%", "64.0 MiB / 128 MiB", "50.00%", "10 B / 20 B", "1.0 KiB / 2.0 KiB", "3"],
    ["web-1", "200.00%", ...rows[0].slice(2)],
  ]);
  assert.deepEqual(requests, [
    "GET /deployments",
    "GET /deployments/web/stats",
    "GET /deployments/web/stats",
  ]);
  asked = 0;
  const json = await svcFake(["stats", "--no-stream", "--output", "json", "web"], { handler });
  assert.equal(JSON.parse(json.stdout.split("\n")[0]).cpuPercent, 50);
});

Deno.test("stats: rows as they come until nothing runs; a counter that began again has no percentage", async () => {
  const handler = () => ndjson(sample("web-0", 0, 1), sample("web-0", 1, 2), sample("web-0", 2, 0));
  const { code, stdout, requests } = await svcFake(["stats", "web"], { handler });
  assert.equal(code, 0);
  const lines = stdout.trim().split("\n").map((line) => line.split(/ {2,}/).slice(0, 2).join(" "));
  assert.deepEqual(lines, ["INSTANCE CPU %", "web-0 -", "web-0 100.00%", "web-0 -"]);
  assert.deepEqual(requests, ["GET /deployments/web/stats?follow=true"]);
});

Deno.test("stats on a terminal: drawn in place, the cursor comes back, new deployments join", async () => {
  const controller = new AbortController();
  const line = (value: unknown) => new TextEncoder().encode(JSON.stringify(value) + "\n");
  const open = (first: unknown[]) => {
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(stream) {
        for (const value of first) stream.enqueue(line(value));
      },
    });
    return new Response(body);
  };
  const handler = (_: Request, { pathname }: URL) => {
    if (pathname.endsWith("/deployments")) return Response.json([status("web")]);
    if (pathname.endsWith("/events")) {
      const event = { type: "started", time: "", deployment: "new", instance: "new-0" };
      return open([event]);
    }
    return open([sample(`${pathname.split("/").at(-2)}-0`, 0, 1)]);
  };
  const { code, stdout } = await svcFake(["stats"], {
    handler,
    keyboard: new FakeKeyboard({ columns: 60, rows: 10 }),
    signal: controller.signal,
    onStdout: (text) => {
      if (/new-0[^\n]*\nweb-0[^\n]*\n$/.test(text)) controller.abort(interruption("SIGINT"));
    },
  });
  assert.equal(code, 130);
  const shown = stdout.replaceAll("\x1b", "ESC");
  assert.match(
    shown,
    /^ESC\[\?25lINSTANCE.*\n[^]*ESC\[1A\rESC\[J[^]*ESC\[\?25h$/,
  );
  assert(shown.split("\n").every((row) => row.replace(/ESC\[\??\w+/g, "").length <= 61));
});

Deno.test("stats: what the server reports in mid-stream ends it", async () => {
  const error = { code: "unavailable", detail: "Cannot read them: the engine is gone" };
  const handler = () => ndjson(sample("web-0", 0, 1), { type: "error", error });
  for (const more of [[], ["--no-stream"], ["--output", "json"]]) {
    const { code, stderr } = await svcFake(["stats", ...more, "web"], { handler });
    assert.equal(code, 1);
    assert.match(stderr, /^svc: Cannot read them: the engine is gone\n/);
  }
});

Deno.test("events: a line each, or as the server sent it; an end is told", async () => {
  const event = (type: string, more = {}) => ({
    ...{ type, time: "2026-01-01T00:00:00Z", deployment: "web", instance: "web-0" },
    ...{ container: "c", ...more },
  });
  const handler = () => ndjson(event("started"), event("died", { exitCode: 3 }));
  const { code, stdout, stderr, requests } = await svcFake(["events", "web", "db"], { handler });
  assert.equal(
    stdout,
    "2026-01-01T00:00:00Z started   web-0\n2026-01-01T00:00:00Z died      web-0 (exit code 3)\n",
  );
  assert.equal(code, 1);
  assert.match(stderr, /the server has ended them/);
  assert.deepEqual(requests, ["GET /events?deployment=web&deployment=db"]);
  const json = await svcFake(["events", "--output", "json"], { handler });
  assert.deepEqual(JSON.parse(json.stdout.split("\n")[1]), event("died", { exitCode: 3 }));
});

Deno.test("volume and network: ls, inspect, rm", async () => {
  const data = { name: "data", driver: "local", labels: { a: "b" }, usedBy: ["web"], size: 2048 };
  const net = {
    ...{ name: "front", driver: "bridge", subnet: "10.1.0.0/24", internal: true },
    ...{ labels: {}, usedBy: ["web", "db"] },
  };
  const handler = ({ method }: Request, { pathname }: URL) => {
    if (pathname.endsWith("/gone")) throw new SvcError("not_found", "Cannot do it: none");
    if (method === "DELETE") return new Response(null, { status: 204 });
    const found = pathname.includes("volumes") ? data : net;
    return Response.json(/s$/.test(pathname) ? [found] : found);
  };
  const run = (...args: string[]) => svcFake(args, { handler });
  assert.equal(
    (await run("volume", "ls")).stdout,
    "NAME   DRIVER   SIZE      USED BY   AGE\ndata   local    2.0 KiB   web\n",
  );
  assert.equal((await run("volume", "ls", "-q")).stdout, "data\n");
  assert.match((await run("network", "ls")).stdout, /front +bridge +10.1.0.0\/24 +web, db +yes\n/);
  assert.equal(
    (await run("network", "inspect", "front")).stdout,
    "Name:       front\nDriver:     bridge\nSubnet:     10.1.0.0/24\nInternal:   yes\nUsed by:    web, db\n",
  );
  const json = await run("volume", "inspect", "--output", "json", "data");
  assert.deepEqual(JSON.parse(json.stdout), data);
  const removed = await run("volume", "rm", "gone", "data");
  assert.deepEqual([removed.code, removed.stdout, removed.requests], [
    1,
    "data\n",
    ["DELETE /volumes/gone", "DELETE /volumes/data"],
  ]);
  assert.equal((await run("volume", "rm", "-f", "gone")).code, 0);
  for (const args of [["volume", "sl"], ["network", "rm"], ["volume", "ls", "x"], ["volume"]]) {
    const { code, requests } = await run(...args);
    assert.deepEqual([code, requests], [2, []], args.join(" "));
  }
  assert.match((await run("network", "inspec", "x")).stderr, /did you mean inspect\?/);
});

Deno.test("health: the last probe of each instance; 1 where something is not well", async () => {
  const last = { time: new Date().toISOString(), exitCode: 3, output: "no answer\nfrom it\n" };
  const instance = (id: string, state: string, health?: unknown) => ({
    ...{ id, state, restarts: 0 },
    ...(health ? { health } : {}),
  });
  const healthy = { state: "healthy", failures: 0, last: { ...last, exitCode: 0, output: "" } };
  const sick = { state: "unhealthy", failures: 4, last };
  const all = [
    status("db", { instances: [instance("db-0", "unhealthy", sick)] }),
    status("off", { state: "stopped", instances: [instance("off-0", "exited")] }),
    status("plain", { instances: [instance("plain-0", "running")] }),
    status("web", { instances: [instance("web-0", "healthy", healthy)] }),
  ];
  const handler = (_: Request, { pathname }: URL) => {
    const found = all.find(({ name }) => pathname.endsWith(`/${name}`));
    return Response.json(found ?? all);
  };
  const run = (...args: string[]) => svcFake(["health", ...args], { handler });
  const every = await run();
  assert.equal(every.code, 1);
  const [, db, off, plain, web] = every.stdout.split("\n").map((line) => line.split(/ {2,}/));
  assert.deepEqual(db, ["db", "db-0", "unhealthy", "4", "0s", "exit code 3: no answer / from it"]);
  assert.deepEqual(off.slice(0, 3), ["off", "off-0", "exited"]);
  assert.deepEqual(plain, ["plain", "plain-0", "running", "no health check"]);
  assert.deepEqual(web, ["web", "web-0", "healthy", "0", "0s", "exit code 0"]);
  assert.equal((await run("plain", "web")).code, 0);
  assert.equal((await run("off")).code, 1);
  const json = await run("--output", "json", "db");
  assert.deepEqual([json.code, JSON.parse(json.stdout)], [1, {
    ...{ deployment: "db", deploymentState: "running", instance: "db-0", state: "unhealthy" },
    health: sick,
  }]);
});
