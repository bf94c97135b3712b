/** What the access log tells of a registry's requests: who, what, how much, and whether it went through. */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { openFsStore } from "../../backends/store/fs.ts";
import { openMemStore } from "../../backends/store/mem.ts";
import { createLogger, silent } from "../base/log.ts";
import { digestOf } from "../oci/digest.ts";
import { MEDIA } from "../oci/types.ts";
import { createRegistry } from "../registry/registry.ts";
import { createContentStore } from "../store/content.ts";
import type { ObjectStore } from "../store/object_store.ts";
import { startTestServer } from "./testing.ts";

type Line = Record<string, unknown>;

async function start(objects: ObjectStore = openMemStore()) {
  const lines: Line[] = [];
  const store = createContentStore(objects, { log: silent });
  const server = await startTestServer({
    routes: createRegistry({ reader: store, writer: store }),
    log: createLogger({
      level: "info",
      format: "json",
      write: (line) => lines.push(JSON.parse(line)),
    }),
  });
  return {
    ...server,
    store,
    /** The one line of requests with that id, once it is written. */
    async line(id: string): Promise<Line> {
      const found = () => lines.filter(({ request }) => request === id);
      await until(() => found().length > 0);
      assert.equal(found().length, 1, "one line for one request");
      return found()[0];
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

const bytes = new TextEncoder().encode("a layer of some bytes");
const blob = digestOf(bytes);
const manifest = new TextEncoder().encode(JSON.stringify({
  schemaVersion: 2,
  mediaType: MEDIA.manifest,
  config: { mediaType: MEDIA.config, digest: blob, size: bytes.length },
  layers: [],
}));
const image = digestOf(manifest);

Deno.test("access log: each of a push's and a pull's requests", async () => {
  await using server = await start();
  let sequence = 0;
  /** Sends it and compares the fields that are named in `expected`. */
  const check = async (
    method: string,
    path: string,
    expected: Line,
    init: { body?: Uint8Array<ArrayBuffer>; headers?: Record<string, string> } = {},
  ) => {
    const id = `r${sequence++}`;
    const headers = { ...init.headers, "x-request-id": id };
    const response = await fetch(server.base + path, { ...init, method, headers });
    await response.body?.cancel();
    const line = await server.line(id);
    const seen = Object.fromEntries(Object.keys(expected).map((key) => [key, line[key]]));
    assert.deepEqual(seen, expected, `${method} ${path}`);
    assert.equal(line.method, method);
    assert.equal(line.subject, "anonymous");
    assert.equal(line.msg, "request");
    assert.equal(typeof line.durationMs, "number");
    assert.equal(line.aborted, undefined, `${method} ${path}`);
    return response;
  };
  const none = { repository: undefined, digest: undefined, reference: undefined };
  await check("GET", "/v2/", { status: 200, bytes: 2, received: undefined, ...none });
  const started = await check("POST", "/v2/a/b/blobs/uploads/", {
    status: 202,
    repository: "a/b",
    digest: undefined,
    bytes: 0,
    received: undefined,
  });
  const location = started.headers.get("location")!;
  const upload = location.split("/").at(-1);
  await check("PATCH", location, { status: 202, upload, received: 10, bytes: 0 }, {
    body: bytes.slice(0, 10),
  });
  await check("PUT", `${location}?digest=${blob}`, {
    status: 201,
    repository: "a/b",
    upload,
    digest: blob,
    received: bytes.length - 10,
    bytes: 0,
  }, { body: bytes.slice(10) });
  await check("HEAD", `/v2/a/b/blobs/${blob}`, { status: 200, digest: blob, bytes: 0 });
  await check("PUT", "/v2/a/b/manifests/v1", {
    status: 201,
    repository: "a/b",
    reference: "v1",
    digest: image,
    received: manifest.length,
  }, { body: manifest, headers: { "content-type": MEDIA.manifest } });
  for (const reference of ["v1", image]) {
    await check("GET", `/v2/a/b/manifests/${reference}`, {
      status: 200,
      reference,
      digest: image,
      bytes: manifest.length,
    });
  }
  await check("GET", `/v2/a/b/blobs/${blob}`, {
    status: 200,
    repository: "a/b",
    digest: blob,
    bytes: bytes.length,
  });
  await check("GET", `/v2/a/b/blobs/${blob}`, { status: 206, bytes: 3 }, {
    headers: { range: "bytes=1-3" },
  });
  await check("GET", "/v2/a/b/tags/list", { status: 200, repository: "a/b", digest: undefined });
  await check("GET", `/v2/a/b/referrers/${blob}`, { status: 200, digest: blob });
  await check("GET", "/v2/_catalog", { status: 200, ...none });
  await check("GET", "/v2/none/manifests/v9", { status: 404, repository: "none", reference: "v9" });
  await check("GET", `/v2/${"x".repeat(2000)}/tags/list`, {
    status: 400,
    repository: `${"x".repeat(300)}…`,
  });
  await check("DELETE", "/v2/a/b/manifests/v1", { status: 202, reference: "v1" });
});

/** A bare connection, and what it was sent. */
async function dial(base: string): Promise<{ socket: Socket; received: () => string }> {
  const { hostname, port } = new URL(base);
  const socket = connect(Number(port), hostname);
  let text = "";
  socket.on("data", (chunk) => text += chunk.toString("latin1"));
  socket.on("error", () => {/* it is cut on purpose */});
  await new Promise((resolve) => socket.once("connect", resolve));
  return { socket, received: () => text };
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 60_000;
  while (!await condition()) {
    assert.ok(performance.now() < end, "not within a minute");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

Deno.test("access log: bytes that a store takes from the connection are counted as any", async () => {
  const dir = await Deno.makeTempDir({ prefix: "svc-access-log-" });
  try {
    await using server = await start(await openFsStore(dir));
    const large = new Uint8Array(3_000_000).fill(7);
    const framings: Record<string, () => BodyInit> = {
      length: () => large,
      chunks: () => ReadableStream.from([large.subarray(0, 1_000_000), large.subarray(1_000_000)]),
    };
    for (const [id, body] of Object.entries(framings)) {
      const response = await fetch(
        `${server.base}/v2/a/blobs/uploads/?digest=${digestOf(large)}`,
        { method: "POST", body: body(), headers: { "x-request-id": id } },
      );
      assert.equal(response.status, 201);
      const line = await server.line(id);
      assert.equal(line.received, large.length, id);
      assert.equal(line.aborted, undefined, id);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("access log: an upload that breaks off is marked, with the bytes that came", async () => {
  await using server = await start();
  const response = await fetch(`${server.base}/v2/a/blobs/uploads/`, { method: "POST" });
  const location = response.headers.get("location")!;
  const { socket } = await dial(server.base);
  const size = 64 * 1024 * 1024;
  socket.write(
    `PATCH ${location} HTTP/1.1\r\nhost: x\r\nx-request-id: cut\r\ncontent-length: ${size}\r\n\r\n`,
  );
  socket.write(new Uint8Array(size / 8));
  const held = async () => {
    const { headers } = await fetch(server.base + location);
    return Number(headers.get("range")!.slice(2));
  };
  await until(async () => await held() > 0);
  socket.destroy();
  const line = await server.line("cut");
  assert.equal(line.aborted, true);
  assert.equal(line.repository, "a");
  assert.equal(line.upload, location.split("/").at(-1));
  assert.ok(Number(line.received) > 0 && Number(line.received) <= size / 8, `${line.received}`);
  assert.ok(Number(line.received) > await held(), "what the store has came first");
});

Deno.test("access log: a download that nobody takes to its end is marked, with the bytes that went", async () => {
  await using server = await start();
  const size = 64 * 1024 * 1024;
  const large = new Uint8Array(size);
  const digest = digestOf(large);
  await server.store.putBlob("a", { digest, size }, ReadableStream.from([large]));
  const { socket, received } = await dial(server.base);
  socket.write(`GET /v2/a/blobs/${digest} HTTP/1.1\r\nhost: x\r\nx-request-id: half\r\n\r\n`);
  await until(() => received().length > 1024);
  socket.pause();
  socket.destroy();
  const line = await server.line("half");
  assert.equal(line.aborted, true);
  assert.equal(line.status, 200);
  assert.equal(line.digest, digest);
  assert.ok(Number(line.bytes) < size, `${line.bytes} of ${size} bytes`);
});
