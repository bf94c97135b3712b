import assert from "node:assert/strict";
import type { LogFrame } from "../../api/deployment.ts";
import { SvcError } from "../../base/errors.ts";
import type { LogOptions } from "../../deploy/backend.ts";
import { collect, jsonLines, startTestServer, STATUS } from "../testing.ts";

const API = "/.svc/v1/deployments";

const frame = (stream: LogFrame["stream"], line: string): LogFrame => ({
  time: "2026-01-01T00:00:00.000000001Z",
  instance: "web-0",
  stream,
  line,
});

async function logServer(extra?: (options: LogOptions) => AsyncIterable<LogFrame>) {
  let asked: LogOptions | undefined;
  const server = await startTestServer({
    backend: {
      status: (name) => Promise.resolve(name === "web" ? STATUS : undefined),
      async *logs(_name, options = {}) {
        asked = options;
        yield [frame("stdout", "one"), frame("stderr", "two")];
        if (extra) { for await (const one of extra(options)) yield [one]; }
      },
    },
  });
  return { server, asked: () => asked };
}

Deno.test("logs: frames or text, chosen streams, checked query", async () => {
  const { server, asked } = await logServer();
  await using _ = server;
  const get = (query: string, accept = "application/x-ndjson") =>
    fetch(`${server.base}${API}/web/logs${query}`, { headers: { accept } });
  const frames = await collect(
    jsonLines<LogFrame>(await get("?tail=5&since=1700000000&until=2030-01-01T00:00:00Z")),
  );
  assert.deepEqual(frames.map((f) => f.line), ["one", "two"]);
  assert.equal(asked()!.tail, 5);
  assert.equal(asked()!.since!.getTime(), 1_700_000_000_000);
  assert.equal(asked()!.until!.toISOString(), "2030-01-01T00:00:00.000Z");
  const text = await get("?timestamps=1&stderr=1&tail=all", "text/plain");
  assert.equal(await text.text(), "2026-01-01T00:00:00.000000001Z two\n");
  assert.equal(await (await get("?stderr=false", "text/plain")).text(), "one\n");
  for (const query of ["?tail=-1", "?since=yesterday", "?folow=1", "?follow=maybe"]) {
    const refused = await get(query);
    assert.equal(refused.status, 400, query);
    await refused.body?.cancel();
  }
  const missing = await fetch(`${server.base}${API}/wbe/logs`);
  assert.equal(missing.status, 404);
  await missing.body?.cancel();
});

Deno.test("logs: as text they are the bytes that were printed", async () => {
  const { server } = await logServer(async function* () {
    yield { ...frame("stdout", "cr\r"), partial: true };
    yield { ...frame("stdout", "\ufffd"), base64: btoa("\xff") };
    yield { ...frame("stdout", "end"), partial: true };
  });
  await using _ = server;
  const get = (query: string) =>
    fetch(`${server.base}${API}/web/logs${query}`, { headers: { accept: "text/plain" } });
  const bytes = await (await get("")).bytes();
  assert.equal(String.fromCharCode(...bytes), "one\ntwo\ncr\r\xff\nend");
  const dated = await (await get("?timestamps=1&stdout=1")).bytes();
  const time = "2026-01-01T00:00:00.000000001Z";
  assert.equal(String.fromCharCode(...dated), `${time} one\n${time} cr\r\xff\n${time} end`);
});

Deno.test("logs: a failure in mid-stream is the last line", async () => {
  const { server } = await logServer(async function* () {
    yield frame("stdout", "three");
    throw new SvcError("storage_full", "Cannot read the log: no space");
  });
  await using _ = server;
  const lines = await collect(
    jsonLines<LogFrame | { error: { code: string } }>(
      await fetch(`${server.base}${API}/web/logs`),
    ),
  );
  assert.equal(lines.length, 4);
  assert.equal((lines[3] as { error: { code: string } }).error.code, "storage_full");
});

Deno.test("logs: following ends with the client and with the server", async () => {
  const ended: string[] = [];
  const { server } = await logServer(async function* (options) {
    await new Promise((_, reject) => {
      options.signal!.addEventListener("abort", () => {
        ended.push("ended");
        reject(options.signal!.reason);
      });
    });
    yield frame("stdout", "never");
  });
  await using _ = server;
  const client = new AbortController();
  const followed = await fetch(`${server.base}${API}/web/logs?follow=1`, { signal: client.signal });
  const reader = followed.body!.getReader();
  await reader.read();
  client.abort();
  while (ended.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
  const second = await fetch(`${server.base}${API}/web/logs?follow=1`);
  setTimeout(() => server.lifecycle.drain(), 20);
  assert.equal((await collect(jsonLines(second))).length, 2);
  assert.equal(await server.lifecycle.idle(60_000), true);
});
