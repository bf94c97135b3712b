import assert from "node:assert/strict";
import { join } from "node:path";
import type { ActivityEntry } from "../../api/activity.ts";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { Lifecycle } from "../lifecycle.ts";
import type { Context, Route } from "../route.ts";
import { activityRoutes } from "../routes/activity.ts";
import { collect, jsonLines, startTestServer } from "../testing.ts";
import { ActivityRecord } from "./record.ts";

const entry = (name: string, more: Partial<ActivityEntry> = {}) => ({
  subject: "alice",
  remote: "192.0.2.1",
  action: "pull",
  operation: "GET /v2/{name+}/manifests/{reference}",
  name,
  result: "ok" as const,
  status: 200,
  bytes: 10,
  durationMs: 1,
  request: "r",
  ...more,
});

async function withRecord(
  maxBytes: number,
  work: (record: ActivityRecord, dataDir: string) => Promise<void>,
): Promise<void> {
  const dataDir = await Deno.makeTempDir();
  try {
    await using record = new ActivityRecord({ dataDir, maxBytes, log: silent, delayMs: 5 });
    await work(record, dataDir);
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
}

const signal = new AbortController().signal;
const names = async (record: ActivityRecord, tail?: number) =>
  (await collect(record.read({ tail, signal }))).map(({ name }) => name);

Deno.test("activity: what is alike is counted, the rest stands in its order, private and whole", async () => {
  await withRecord(1e6, async (record, dataDir) => {
    for (let n = 0; n < 5; n++) record.add(entry("a:v1"));
    record.add(entry("b:v1"));
    await record.flush();
    record.add(entry("a:v1"));
    const found = await collect(record.read({ signal }));
    assert.deepEqual(found.map(({ name, count, bytes }) => [name, count, bytes]), [
      ["a:v1", 5, 50],
      ["b:v1", undefined, 10],
      ["a:v1", undefined, 10],
    ]);
    assert.equal((await Deno.stat(join(dataDir, "activity"))).mode! & 0o777, 0o600);
    assert.deepEqual(await names(record, 2), ["b:v1", "a:v1"]);
    assert.deepEqual(await names(record, 0), []);
  });
});

Deno.test("activity: a full file becomes the one generation before it", async () => {
  await withRecord(2000, async (record, dataDir) => {
    for (let n = 0; n < 40; n++) {
      record.add(entry(`n${n}`));
      await record.flush();
    }
    const files = [...Deno.readDirSync(dataDir)].map(({ name }) => name).sort();
    assert.deepEqual(files, ["activity", "activity.1"]);
    for (const name of files) assert((await Deno.stat(join(dataDir, name))).size <= 2000);
    const found = await names(record);
    const first = Number(found[0]!.slice(1));
    assert(first > 10 && first < 35, String(first));
    assert.deepEqual(found, Array.from({ length: 40 - first }, (_, n) => `n${n + first}`));
  });
});

Deno.test("activity: entries that come in one go keep to the size of a generation too", async () => {
  await withRecord(2000, async (record, dataDir) => {
    for (let n = 0; n < 200; n++) record.add(entry(`n${n}`));
    await record.flush();
    for (const name of ["activity", "activity.1"]) {
      const { size } = await Deno.stat(join(dataDir, name));
      assert(size > 1000 && size <= 2000, `${name}: ${size}`);
    }
    const found = await names(record);
    assert(found.length > 10, String(found.length));
    assert.deepEqual(found, Array.from(found, (_, n) => `n${200 - found.length + n}`));
  });
});

Deno.test("activity: half a line of a crash is left out, and what follows is whole", async () => {
  await withRecord(1e6, async (record, dataDir) => {
    await Deno.writeTextFile(join(dataDir, "activity"), `${JSON.stringify(entry("old"))}\n{"half`);
    record.add(entry("new"));
    assert.deepEqual(await names(record), ["old", "new"]);
  });
});

Deno.test("activity: a disk that refuses costs entries and nothing else", async () => {
  const dataDir = await Deno.makeTempDir();
  const lines: string[] = [];
  const log = { ...silent, error: (line: string) => void lines.push(line) };
  await Deno.mkdir(join(dataDir, "activity"));
  await using record = new ActivityRecord({ dataDir, maxBytes: 1000, log });
  for (let n = 0; n < 3; n++) {
    record.add(entry(`n${n}`));
    await record.flush();
  }
  assert.deepEqual(lines, ["cannot write the flight record"]);
  await Deno.remove(dataDir, { recursive: true });
  await Deno.mkdir(dataDir);
  record.add(entry("again"));
  assert.deepEqual(await names(record), ["again"]);
  await Deno.remove(dataDir, { recursive: true });
});

Deno.test("activity: followers see each entry once, from the file and as it comes", async () => {
  await withRecord(1e6, async (record) => {
    record.add(entry("before"));
    const end = new AbortController();
    const seen: (string | undefined)[] = [];
    const all = Promise.withResolvers<void>();
    const following = (async () => {
      for await (const { name } of record.read({ follow: true, signal: end.signal })) {
        seen.push(name);
        if (seen.length === 1) { for (let n = 0; n < 100; n++) record.add(entry(`n${n}`)); }
        if (seen.length === 101) all.resolve();
      }
    })();
    await all.promise;
    end.abort();
    await following;
    assert.deepEqual(seen, ["before", ...Array.from({ length: 100 }, (_, n) => `n${n}`)]);
  });
});

Deno.test("activity: requests that move or change something, and those refused, are there", async () => {
  await withRecord(1e6, async (record) => {
    const row = (
      method: Route["method"],
      path: string,
      action: Route["action"] = "read",
      handler: Route["handler"] = () => new Response("x"),
    ): Route => ({ method, path, action, help: "", handler });
    const failing = (context: Context) => {
      context.outcome = "build_failed";
      return new Response("ends badly");
    };
    const named = (context: Context) => {
      context.about = "app:v3";
      return new Response("x");
    };
    const forbidden = () => {
      throw new SvcError("denied", "Cannot do it");
    };
    await using server = await startTestServer({
      note: record.note,
      routes: [
        ...activityRoutes({ record, lifecycle: new Lifecycle() }),
        row("GET", "/v2/", "pull"),
        row("GET", "/v2/{name+}/manifests/{reference}", "pull"),
        row("GET", "/v2/{name+}/blobs/{digest}", "pull"),
        row("GET", "/v2/{name+}/tags/list", "pull"),
        row("POST", "/v2/{name+}/blobs/uploads/", "push", () => new Response("", { status: 202 })),
        row("PUT", "/v2/{name+}/blobs/uploads/{id}", "push"),
        row("PUT", "/v2/{name+}/manifests/{reference}", "push"),
        row("DELETE", "/x/deployments/{name}", "deploy"),
        row("POST", "/x/build", "build", failing),
        row("GET", "/x/build/attach", "build", named),
        row("POST", "/x/forbidden", "gc", forbidden),
      ],
    });
    const requests = [
      "GET /v2/",
      "HEAD /v2/a/b/manifests/v1",
      "GET /v2/a/b/manifests/v1",
      "GET /v2/a/b/manifests/sha256:00",
      "GET /v2/a/b/blobs/sha256:11",
      "GET /v2/a/b/tags/list",
      "POST /v2/a/blobs/uploads/",
      "PUT /v2/a/blobs/uploads/7?digest=sha256:22",
      "PUT /v2/a/manifests/v2",
      "DELETE /x/deployments/web",
      "POST /x/build?t=app:v1&t=app:v2",
      "GET /x/build/attach",
      "POST /x/forbidden",
      "GET /.svc/v1/info",
      "GET /nowhere",
    ];
    for (const request of requests) {
      const [method, path] = request.split(" ");
      const response = await fetch(server.base + path, { method });
      await response.body?.cancel();
    }
    const expected = [
      ["pull", "a/b:v1", "ok", undefined],
      ["pull", "a/b@sha256:00", "ok", undefined],
      ["pull", "a/b@sha256:11", "ok", undefined],
      ["push", "a@sha256:22", "ok", undefined],
      ["push", "a:v2", "ok", undefined],
      ["deploy", "web", "ok", undefined],
      ["build", "app:v1 app:v2", "failed", "build_failed"],
      ["build", "app:v3", "ok", undefined],
      ["gc", undefined, "denied", "denied"],
    ];
    const read = async (query = "") => {
      const response = await fetch(`${server.base}/.svc/v1/activity${query}`);
      return await collect(jsonLines<ActivityEntry>(response));
    };
    // A client may have its answer before the server knows that it is out.
    let found = await read();
    for (const until = Date.now() + 60_000; found.length < expected.length;) {
      assert(Date.now() < until, JSON.stringify(found));
      found = await read();
    }
    const line = (fields: unknown[]) => fields.join(" ");
    assert.deepEqual(
      found.map(({ action, name, result, code }) => line([action, name, result, code])).sort(),
      expected.map(line).sort(),
    );
    for (const { remote, subject } of found) {
      assert.equal(remote, "127.0.0.1");
      assert.equal(subject, "anonymous");
    }
    const tail = await read("?tail=1&since=2020-01-01T00:00:00Z");
    assert.deepEqual(tail, found.slice(-1));
  });
});
