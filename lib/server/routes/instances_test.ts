import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import type { DeployCaps } from "../../deploy/caps.ts";
import { startTestServer, STATUS } from "../testing.ts";

const API = "/.svc/v1/deployments";

async function instanceServer(caps: DeployCaps) {
  const server = await startTestServer({
    backend: { status: (name) => Promise.resolve(name === "web" ? STATUS : undefined), caps },
  });
  const call = async (method: string, path: string) => {
    const response = await fetch(`${server.base}${API}${path}`, { method });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };
  return { server, call };
}

Deno.test("signal: to all instances or one, checked before the engine sees it", async () => {
  const sent: unknown[][] = [];
  const { server, call } = await instanceServer({
    signal: (name, signal, { instance } = {}) => {
      sent.push([name, signal, instance]);
      return Promise.resolve();
    },
  });
  await using _ = server;
  assert.deepEqual(await call("POST", "/web/signal?signal=SIGHUP"), {
    status: 204,
    body: undefined,
  });
  assert.equal((await call("POST", "/web/signal?signal=10&instance=web-1")).status, 204);
  assert.equal((await call("POST", "/web/signal")).status, 204);
  assert.deepEqual(sent.splice(0), [
    ["web", "SIGHUP", undefined],
    ["web", "10", "web-1"],
    ["web", "KILL", undefined],
  ]);
  const wrong = await call("POST", "/web/signal?signal=HUPP");
  assert.deepEqual([wrong.status, wrong.body.code], [400, "argument_invalid"]);
  assert.match(wrong.body.detail, /no such signal/);
  const missing = await call("POST", "/wbe/signal?signal=HUP");
  assert.deepEqual([missing.status, missing.body.code], [404, "not_found"]);
  assert.deepEqual(sent, []);
});

Deno.test("pause and unpause: each is its own call, and what stands in the way is told", async () => {
  const done: string[] = [];
  const { server, call } = await instanceServer({
    pause: {
      pause: (name, { instance } = {}) => {
        if (instance === "web-9") {
          return Promise.reject(new SvcError("conflict", "Cannot pause web-9: it does not run"));
        }
        done.push(`pause ${name} ${instance}`);
        return Promise.resolve();
      },
      unpause: (name, { instance } = {}) => {
        done.push(`unpause ${name} ${instance}`);
        return Promise.resolve();
      },
    },
  });
  await using _ = server;
  assert.equal((await call("POST", "/web/pause")).status, 204);
  assert.equal((await call("POST", "/web/unpause?instance=web-0")).status, 204);
  assert.deepEqual(done, ["pause web undefined", "unpause web web-0"]);
  const stopped = await call("POST", "/web/pause?instance=web-9");
  assert.deepEqual([stopped.status, stopped.body.detail], [
    409,
    "Cannot pause web-9: it does not run",
  ]);
});

Deno.test("update: what the query says, checked before the engine sees it", async () => {
  const updates: unknown[][] = [];
  const { server, call } = await instanceServer({
    update: (name, update, { instance } = {}) => {
      updates.push([name, update, instance]);
      return Promise.resolve();
    },
  });
  await using _ = server;
  const ok = async (query: string) =>
    assert.equal((await call("POST", `/web/update?${query}`)).status, 204);
  await ok("memory=64Mi&reservedMemory=1048576&cpus=0.5");
  await ok("restart=on-failure&maxAttempts=3&instance=web-1");
  assert.deepEqual(updates.splice(0), [
    ["web", { cpuLimit: 0.5, memoryLimit: 64 << 20, reservedMemory: 1 << 20 }, undefined],
    ["web", { restart: "on-failure", restartMaxAttempts: 3 }, "web-1"],
  ]);
  const wrong = ["", "memory=x", "cpus=x", "cpus=-1", "restart=never", "maxAttempts=3", "cpu=1"];
  for (const query of wrong) {
    const { status, body } = await call("POST", `/web/update?${query}`);
    assert.deepEqual([query, status, body.code], [query, 400, "argument_invalid"]);
  }
  assert.equal((await call("POST", "/wbe/update?cpus=1")).status, 404);
  assert.deepEqual(updates, []);
});

Deno.test("update: an engine that cannot says so", async () => {
  const { server, call } = await instanceServer({});
  await using _ = server;
  const { status, body } = await call("POST", "/web/update?cpus=1");
  assert.deepEqual([status, body.code], [501, "unsupported"]);
  assert.match(body.detail, /Cannot update web: the deploy backend .* cannot do it/);
});

Deno.test("top: a list for each instance", async () => {
  const lists = [{ instance: "web-0", titles: ["PID", "CMD"], processes: [["1", "sleep 9"]] }];
  const { server, call } = await instanceServer({ top: () => Promise.resolve(lists) });
  await using _ = server;
  assert.deepEqual(await call("GET", "/web/top"), { status: 200, body: lists });
  assert.equal((await call("GET", "/wbe/top")).status, 404);
});

Deno.test("an ability that the backend lacks is 501, and the backend is named", async () => {
  const { server, call } = await instanceServer({});
  await using _ = server;
  for (
    const [method, path] of [
      ["POST", "/web/signal?signal=HUP"],
      ["POST", "/web/pause"],
      ["POST", "/web/unpause"],
      ["GET", "/web/top"],
      ["GET", "/web/stats"],
    ]
  ) {
    const { status, body } = await call(method, path);
    assert.deepEqual([status, body.code], [501, "unsupported"], path);
    assert.match(body.detail, /the deploy backend fake cannot do it/);
  }
});
