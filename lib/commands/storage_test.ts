import assert from "node:assert/strict";
import { runCli } from "../../cli.ts";
import type { GcResult } from "../api/storage.ts";
import { gcText } from "./gc.ts";

const RESULT: GcResult = {
  blobsDeleted: 1,
  bytesReclaimed: 2048,
  manifestsDeleted: 0,
  buildCacheBytesReclaimed: 0,
  durationMs: 1500,
  blobsLeased: 0,
  uploadsExpired: 0,
};

/** A server that answers everything with these lines; what it was asked. */
function fakeServer(answer: unknown[]) {
  const asked: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    asked.push(`${request.method} ${request.url.replace(/^http:\/\/[^/]+/, "")}`);
    return new Response(answer.map((line) => JSON.stringify(line) + "\n").join(""));
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  return { asked, url, [Symbol.asyncDispose]: () => server.shutdown() };
}

async function svc(args: string[], url = "http://127.0.0.1:1") {
  const text = { out: "", err: "" };
  const sink = (to: "out" | "err") => ({
    write: (part: string) => {
      text[to] += part;
      return Promise.resolve();
    },
    size: () => undefined,
  });
  const io = { stdout: sink("out"), stderr: sink("err"), signal: new AbortController().signal };
  const code = await runCli(
    args,
    {
      env: { SVC_SERVER: url },
      io,
      serve: () => Promise.resolve(0),
    } as unknown as Parameters<typeof runCli>[1],
  );
  return { code, ...text };
}

Deno.test("gc: asks, and says what was reclaimed", async () => {
  await using server = fakeServer([{ type: "result", result: RESULT }]);
  const done = await svc(["gc", "--dry-run", "--idle", "0s"], server.url);
  assert.deepEqual([done.code, done.out], [
    0,
    "Would delete 1 blob (2.0 KiB) and 0 manifests in 1.5s.\n",
  ]);
  assert.deepEqual(server.asked, ["POST /.svc/v1/gc?dryRun=true&idle=0s"]);
  const json = await svc(["gc", "--output", "json"], server.url);
  assert.deepEqual(JSON.parse(json.out), RESULT);
  assert.match(gcText({ ...RESULT, blobsLeased: 3 }, false), /3 blobs stay for pushes/);
});

Deno.test("gc: a connection that ends before the result is a failure", async () => {
  await using server = fakeServer([{ type: "progress", phase: "mark", blobs: 1, blobsDeleted: 0 }]);
  const cut = await svc(["gc"], server.url);
  assert.equal(cut.code, 1);
  assert.match(cut.err, /Cannot tell how the collection ended/);
});

Deno.test("storage verify: problems are named and decide the exit code", async () => {
  const result = {
    blobs: 2,
    bytes: 10,
    manifests: 1,
    tags: 1,
    problems: 1,
    warnings: 1,
    quarantined: 1,
    durationMs: 3,
  };
  await using server = fakeServer([
    {
      type: "problem",
      kind: "blob",
      key: "blobs/x",
      message: "is rotten",
      movedTo: "quarantine/x",
    },
    { type: "warning", kind: "manifest", key: "manifests/x", message: "is of no use" },
    { type: "result", result },
  ]);
  const wrong = await svc(["storage", "verify", "--quarantine"], server.url);
  assert.equal(wrong.code, 1);
  const lines = wrong.out.split("\n");
  assert.deepEqual(lines.slice(0, 3), [
    "blob blobs/x: is rotten",
    "  moved to quarantine/x",
    "warning: manifest manifests/x: is of no use",
  ]);
  assert.match(lines[3], /^Checked 2 blobs .*: 1 thing is wrong, 1 to look at\.$/);
  assert.deepEqual(server.asked, ["POST /.svc/v1/storage/verify?quarantine=true"]);
});

Deno.test("storage verify: warnings alone are no failure", async () => {
  const counts = { blobs: 2, bytes: 10, manifests: 1, tags: 1, quarantined: 0, durationMs: 3 };
  await using server = fakeServer([
    { type: "warning", kind: "manifest", key: "manifests/x", message: "is of no use" },
    { type: "result", result: { ...counts, problems: 0, warnings: 1 } },
  ]);
  const odd = await svc(["storage", "verify"], server.url);
  assert.equal(odd.code, 0);
  assert.match(odd.out, /nothing wrong, 1 to look at\.\n$/);
});

Deno.test("storage: words that it does not know", async () => {
  const unknown = await svc(["storage", "verfy"]);
  assert.equal(unknown.code, 2);
  assert.match(unknown.err, /did you mean verify\?/);
  assert.equal((await svc(["storage", "usage", "--quarantine"])).code, 2);
  assert.equal((await svc(["storage"])).code, 2);
});

Deno.test("storage usage: what the build cache holds, and its ceiling", async () => {
  const content = {
    repositories: 0,
    manifests: 0,
    tags: 0,
    blobs: 0,
    blobBytes: 0,
    copies: 0,
    copyBytes: 0,
    uploads: 0,
    uploadBytes: 0,
    quarantined: 0,
    quarantinedBytes: 0,
  };
  const buildCache = {
    bytes: 3072,
    kinds: { cacheMounts: { count: 1, bytes: 1024 }, snapshots: { count: 2, bytes: 2048 } },
    keepBytes: 4096,
  };
  await using server = fakeServer([{ content, buildCache }]);
  const { out } = await svc(["storage", "usage"], server.url);
  const rows = out.trimEnd().split("\n").slice(-3).map((line) => line.split(/ {2,}/));
  assert.deepEqual(rows, [
    ["build cache: snapshots", "2", "2.0 KiB"],
    ["build cache: cache mounts", "1", "1.0 KiB"],
    ["build cache", "3.0 KiB of 4.0 KiB"],
  ]);
});

Deno.test("storage usage: how far the walk in the background is, and what it found", async () => {
  const content = { blobs: 2, blobBytes: 10 };
  const scrub = {
    began: "2026-01-01T00:00:00.000Z",
    withinMs: 3_600_000,
    blobs: 1,
    bytes: 1024,
    totalBytes: 2048,
    damaged: [
      {
        key: "blobs/x",
        message: "is rotten",
        movedTo: "quarantine/x",
        refetched: false,
        found: "t",
      },
    ],
  };
  await using server = fakeServer([{ content, scrub }]);
  const { out } = await svc(["storage", "usage"], server.url);
  assert.match(
    out,
    /1 blobs \(1\.0 KiB of 2\.0 KiB\) were read again since 2026-.*; each within 1h/,
  );
  assert.match(
    out,
    /damaged: blobs\/x: is rotten \(t\)\n {2}moved to quarantine\/x\n {2}push it again\n/,
  );
});
