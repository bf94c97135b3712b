import assert from "node:assert/strict";
import type { BuildEvent, BuildResult } from "../../api/build.ts";
import { SvcError } from "../../base/errors.ts";
import type { Builder, BuildRequest } from "../../build/builder.ts";
import { collect, jsonLines, startTestServer } from "../testing.ts";

const RESULT: BuildResult = {
  digest: "sha256:1",
  imageId: "sha256:2",
  names: ["localhost:5000/app:v1"],
  size: 1,
  ran: 1,
  cached: 0,
  durationMs: 5,
};

async function drain(stream: BuildRequest["context"]): Promise<number> {
  assert.ok(stream instanceof ReadableStream);
  let size = 0;
  for await (const chunk of stream) size += chunk.length;
  return size;
}

const build = (base: string, query = "", body: BodyInit = new Uint8Array(2048)) =>
  fetch(`${base}/.svc/v1/build${query}`, { method: "POST", body });

Deno.test("build: query and context reach the builder, events come back in order", async () => {
  let seen: Omit<BuildRequest, "context"> | undefined;
  let size = 0;
  await using server = await startTestServer({
    builder: async ({ context, ...rest }, { onEvent }) => {
      seen = rest;
      onEvent({ type: "vertex", id: "a", name: "context" });
      size = await drain(context);
      onEvent({ type: "start", id: "a", time: "t" });
      return RESULT;
    },
  });
  const response = await build(
    server.base,
    "?t=app:v1&t=app:v2&target=x&platform=linux/arm64&buildarg=A=1%3D2&label=l=m&nocache=1",
  );
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "application/x-ndjson");
  assert.deepEqual(await collect(jsonLines<BuildEvent>(response)), [
    { type: "vertex", id: "a", name: "context" },
    { type: "start", id: "a", time: "t" },
    { type: "result", result: RESULT },
  ]);
  assert.equal(size, 2048);
  assert.deepEqual(seen, {
    caller: { subject: "anonymous", mayPull: true },
    tags: ["app:v1", "app:v2"],
    dockerfile: "Dockerfile",
    target: "x",
    platform: "linux/arm64",
    buildArgs: { A: "1=2" },
    labels: { l: "m" },
    noCache: true,
  });
});

Deno.test("build: hosts, networks and contexts that the server fetches", async () => {
  let seen: unknown;
  await using server = await startTestServer({
    builder: async ({ context, ...rest }) => {
      seen = rest;
      await drain(context);
      return RESULT;
    },
  });
  const response = await build(
    server.base,
    "?addhost=db:10.0.0.1&pull=1&network=none&allow=security.insecure" +
      "&buildcontext=a=docker-image://base&buildcontext=b=https://host.example/x.git%23v1",
  );
  await response.body?.cancel();
  assert.deepEqual(seen, {
    caller: { subject: "anonymous", mayPull: true },
    tags: [],
    dockerfile: "Dockerfile",
    target: undefined,
    platform: undefined,
    buildArgs: {},
    labels: {},
    noCache: false,
    contexts: {
      a: { kind: "image", name: "base" },
      b: { kind: "url", url: "https://host.example/x.git#v1" },
    },
    addHosts: ["db:10.0.0.1"],
    allow: ["security.insecure"],
    network: "none",
    pull: true,
  });
});

Deno.test("build: what is refused before the build begins has its own status", async () => {
  await using server = await startTestServer({
    builder: async ({ context }, { onEvent }) => {
      await drain(context);
      onEvent({ type: "done", id: "context", durationMs: 1 });
      throw new SvcError("dockerfile_invalid", "Cannot read Dockerfile: line 3: RNU is unknown");
    },
  });
  const response = await build(server.base);
  assert.equal(response.status, 400);
  assert.equal((await response.json()).code, "dockerfile_invalid");
  for (
    const query of [
      "?tag=x",
      "?nocache=perhaps",
      "?buildarg=A",
      "?network=bridge",
      "?allow=everything",
      "?allow=device=",
      "?buildcontext=a=/etc",
    ]
  ) {
    const refused = await build(server.base, query);
    assert.equal(refused.status, 400, query);
    await refused.body?.cancel();
  }
});

Deno.test("build: a step that fails is told with its events", async () => {
  await using server = await startTestServer({
    builder: async ({ context }, { onEvent }) => {
      await drain(context);
      onEvent({ type: "start", id: "a", time: "t" });
      throw new SvcError("build_failed", "Cannot run false: exit code 1");
    },
  });
  const response = await build(server.base);
  assert.equal(response.status, 200);
  const events = await collect(jsonLines<BuildEvent>(response));
  assert.equal(events.at(-1)!.type, "error");
  assert.equal((events.at(-1) as { error: { code: string } }).error.code, "build_failed");
});

Deno.test("build: events go out while the build runs, and a later failure is the last one", async () => {
  const gate = Promise.withResolvers<void>();
  await using server = await startTestServer({
    builder: async ({ context }, { onEvent }) => {
      await drain(context);
      onEvent({ type: "start", id: "a", time: "t" });
      await gate.promise;
      throw new SvcError("storage_full", "Cannot write the layer: no space");
    },
  });
  const response = await build(server.base);
  assert.equal(response.status, 200);
  gate.resolve();
  const events = await collect(jsonLines<BuildEvent>(response));
  assert.deepEqual(events.map((event) => event.type), ["start", "error"]);
  assert.equal((events[1] as { error: { code: string } }).error.code, "storage_full");
});

Deno.test("build: a context over the limit is 413, whether its length is declared or not", async () => {
  let reading = 0;
  await using server = await startTestServer({
    deps: { limits: { buildConcurrency: 1, maxBuildContextBytes: 100_000 } },
    builder: async ({ context }, { onEvent }) => {
      reading++;
      onEvent({ type: "vertex", id: "a", name: "context" });
      await drain(context).catch((error) => {
        onEvent({ type: "failed", id: "a", message: error.message });
        throw error;
      });
      return RESULT;
    },
  });
  const declared = await build(server.base, "", new Uint8Array(100_001));
  assert.equal(declared.status, 413);
  assert.equal((await declared.json()).code, "too_large");
  assert.equal(reading, 0);
  const chunks = Array.from({ length: 20 }, () => new Uint8Array(10_000));
  const streamed = await build(server.base, "", ReadableStream.from(chunks));
  assert.equal(streamed.status, 413);
  assert.equal((await streamed.json()).code, "too_large");
  assert.equal(reading, 1);
  const fits = await build(server.base, "", new Uint8Array(100_000));
  assert.equal(fits.status, 200);
  await fits.body?.cancel();
});

Deno.test("build: no more at once than allowed, and a client that goes away cancels its own", async () => {
  const running: { signal: AbortSignal; finish: () => void }[] = [];
  await using server = await startTestServer({
    deps: { limits: { buildConcurrency: 1 } },
    builder: async ({ context }, { signal }) => {
      await drain(context);
      await new Promise<void>((resolve, reject) => {
        signal!.addEventListener("abort", () => reject(signal!.reason));
        running.push({ signal: signal!, finish: resolve });
      });
      return RESULT;
    },
  });
  const until = async (count: number) => {
    while (running.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const client = new AbortController();
  const first = fetch(`${server.base}/.svc/v1/build`, {
    method: "POST",
    body: new Uint8Array(1),
    signal: client.signal,
  });
  await until(1);
  const second = build(server.base);
  await new Promise((resolve) => setTimeout(resolve, 30));
  assert.equal(running.length, 1);
  client.abort();
  await assert.rejects(first);
  await until(2);
  assert.equal(running[0].signal.aborted, true);
  running[1].finish();
  assert.equal((await collect(jsonLines(await second))).length, 2, "its place, and the result");
});

Deno.test("builder: what stands in the way of constructing it is told", async () => {
  const builder = (): Promise<Builder> =>
    Promise.reject(new SvcError("prerequisite_missing", "Cannot run runc: it is not on PATH"));
  await using server = await startTestServer({ deps: { builder } });
  const response = await build(server.base);
  assert.equal(response.status, 503);
  assert.equal((await response.json()).code, "prerequisite_missing");
});

Deno.test("build: one that waits for its turn is told its place, and every other it gets", async () => {
  const gates = new Map(["a", "b", "c"].map((tag) => [tag, Promise.withResolvers<void>()]));
  const begun = Promise.withResolvers<void>();
  await using server = await startTestServer({
    deps: { limits: { buildConcurrency: 1 } },
    builder: async ({ context, tags: [tag] }) => {
      begun.resolve();
      await drain(context);
      await gates.get(tag)!.promise;
      return RESULT;
    },
  });
  const first = build(server.base, "?t=a");
  await begun.promise;
  const second = await build(server.base, "?t=b");
  const third = await build(server.base, "?t=c");
  assert.deepEqual([second.status, third.status], [200, 200], "it hears while it waits");
  for (const gate of gates.values()) gate.resolve();
  const types = async (response: Response) =>
    (await collect(jsonLines<BuildEvent>(response))).map((event) =>
      event.type === "queued" ? event.place : event.type
    );
  assert.deepEqual(await types(await first), ["result"]);
  assert.deepEqual(await types(second), [1, "result"]);
  assert.deepEqual(await types(third), [2, 1, "result"]);
});
