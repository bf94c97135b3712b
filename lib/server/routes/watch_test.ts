import assert from "node:assert/strict";
import { eventually } from "../../../test/waits.ts";
import type { InstanceEvent } from "../../api/deployment.ts";
import type { InstanceStats } from "../../api/workload.ts";
import { SvcError } from "../../base/errors.ts";
import type { InstanceOptions } from "../../deploy/caps.ts";
import { InstanceEvents } from "../../deploy/instance_events.ts";
import {
  accessByName,
  collect,
  jsonLines,
  startTestServer,
  STATUS,
  type TestOptions,
} from "../testing.ts";

const API = "/.svc/v1";

const sample = (instance: string, cpu: number): InstanceStats => ({
  time: "2026-01-01T00:00:00Z",
  instance,
  cpu,
  memory: 1,
  processes: 1,
  blockRead: 0,
  blockWritten: 0,
});

type Asked = InstanceOptions & { everyMs?: number };

async function statsServer(
  produce: (options: Asked) => AsyncIterable<InstanceStats>,
  deps: TestOptions["deps"] = {},
) {
  const asked: Asked[] = [];
  const server = await startTestServer({
    deps,
    backend: {
      status: (name) => Promise.resolve(name === "web" ? STATUS : undefined),
      caps: {
        stats: (_name, options = {}) => {
          asked.push(options);
          return produce(options);
        },
      },
    },
  });
  const get = (query: string) => fetch(`${server.base}${API}/deployments${query}`);
  return { server, asked, get };
}

Deno.test("stats: one sample, or one every interval; the query is checked", async () => {
  const { server, asked, get } = await statsServer(async function* ({ everyMs }) {
    yield sample("web-0", 1);
    if (everyMs) yield sample("web-0", 2);
  });
  await using _ = server;
  const cpu = async (query: string) =>
    (await collect(jsonLines<InstanceStats>(await get(query)))).map((one) => one.cpu);
  assert.deepEqual(await cpu("/web/stats?instance=web-0"), [1]);
  assert.deepEqual(await cpu("/web/stats?follow=1"), [1, 2]);
  assert.deepEqual(await cpu("/web/stats?follow=1&interval=250ms"), [1, 2]);
  assert.deepEqual(asked.map(({ instance, everyMs }) => [instance, everyMs]), [
    ["web-0", undefined],
    [undefined, 1000],
    [undefined, 250],
  ]);
  for (
    const query of ["?interval=1ms", "?interval=61m", "?interval=x", "?follow=maybe", "?folow=1"]
  ) {
    const refused = await get(`/web/stats${query}`);
    assert.equal(refused.status, 400, query);
    await refused.body?.cancel();
  }
  const missing = await get("/wbe/stats");
  assert.equal(missing.status, 404);
  await missing.body?.cancel();
  assert.equal(asked.length, 3);
});

Deno.test("stats: followers are counted, and make room when they go", async () => {
  const { server, get } = await statsServer(async function* ({ signal }) {
    yield sample("web-0", 1);
    await new Promise((resolve) => signal!.addEventListener("abort", resolve));
  });
  await using _ = server;
  const all = await Promise.all(Array.from({ length: 64 }, () => get("/web/stats?follow=1")));
  const refused = await get("/web/stats?follow=1");
  assert.equal(refused.status, 503);
  assert.match(await refused.text(), /64 clients follow some already/);
  await all[0].body!.cancel();
  let last: Response;
  do {
    last = await get("/web/stats?follow=1");
    all.push(last);
  } while (last.status === 503);
  assert.equal(last.status, 200);
  await Promise.all(all.slice(1).map((one) => one.body!.cancel()));
});

Deno.test("stats: one caller follows so many counters, and leaves some to others", async () => {
  const { server } = await statsServer(async function* ({ signal }) {
    yield sample("web-0", 1);
    await new Promise((resolve) => signal!.addEventListener("abort", resolve));
  }, { access: accessByName });
  await using _ = server;
  const follow = (name: string) =>
    fetch(`${server.base}${API}/deployments/web/stats?follow=1`, { headers: { "x-name": name } });
  const held = await Promise.all(Array.from({ length: 48 }, () => follow("greedy")));
  const refused = await follow("greedy");
  assert.equal(refused.status, 503);
  assert.match(
    await refused.text(),
    /Cannot follow the counters of web: 48 clients of yours do so/,
  );
  held.push(await follow("other"));
  assert.deepEqual(new Set(held.map(({ status }) => status)), new Set([200]));
  await held.shift()!.body!.cancel();
  await eventually("a turn again", async () => {
    const answer = await follow("greedy");
    await answer.body!.cancel();
    return answer.status === 200;
  });
  await Promise.all(held.map(({ body }) => body!.cancel()));
});

Deno.test("stats: a failure in mid-stream is the last line, a client that goes ends the samples", async () => {
  const failing = await statsServer(async function* () {
    yield sample("web-0", 1);
    throw new SvcError("unavailable", "Cannot read the counters: the engine is gone");
  });
  await using _failing = failing.server;
  const lines = await collect(jsonLines<{ error?: { code: string } }>(
    await failing.get("/web/stats?follow=1"),
  ));
  assert.equal(lines[1].error?.code, "unavailable");

  const ended = Promise.withResolvers<void>();
  const open = await statsServer(async function* ({ signal }) {
    signal!.addEventListener("abort", () => ended.resolve());
    yield sample("web-0", 1);
    await ended.promise;
  });
  await using _open = open.server;
  const left = await open.get("/web/stats?follow=1");
  const reader = left.body!.getReader();
  await reader.read();
  await reader.cancel();
  await ended.promise;
});

Deno.test("events: of all or some deployments, from the answer's head on, until the server stops", async () => {
  const told = new InstanceEvents();
  const server = await startTestServer({ backend: { events: (signal) => told.watch(signal) } });
  await using _ = server;
  const event = (deployment: string): InstanceEvent => ({
    type: "started",
    time: "2026-01-01T00:00:00Z",
    deployment,
    instance: `${deployment}-0`,
    container: "c",
  });
  told.emit(event("early"));
  const open = (query: string) => fetch(`${server.base}${API}/events${query}`);
  const [all, some] = await Promise.all(["", "?deployment=b&deployment=c"].map(open));
  for (const name of ["a", "b", "c"]) told.emit(event(name));
  const names = async (response: Response) =>
    (await collect(jsonLines<InstanceEvent>(response))).map(({ deployment }) => deployment);
  const idle = await open("?deployment=d");
  told.end();
  assert.deepEqual(await Promise.all([names(all), names(some), names(idle)]), [
    ["a", "b", "c"],
    ["b", "c"],
    [],
  ]);
});

Deno.test("events: a server that stops ends them without an error", async () => {
  const told = new InstanceEvents();
  const server = await startTestServer({ backend: { events: (signal) => told.watch(signal) } });
  await using _ = server;
  const open = await fetch(`${server.base}${API}/events`);
  server.lifecycle.drain();
  assert.equal(await open.text(), "");
});
