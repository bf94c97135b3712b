/** A registry on disk and clients that mean harm, or are just gone: right answers, nothing leaked or lost. */
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { openFsStore } from "../../backends/store/fs.ts";
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../base/log.ts";
import { digestOf } from "../oci/digest.ts";
import { createRegistry } from "../registry/registry.ts";
import { createContentStore } from "../store/content.ts";
import { openAccess } from "./access.ts";
import type { Limits } from "./http/peer.ts";
import { Lifecycle } from "./lifecycle.ts";
import { listen } from "./listener.ts";
import { Router } from "./router.ts";
import { createHandler } from "./server.ts";

/** Keeps no connection, so that descriptors can be counted. */
const client = Deno.createHttpClient({ poolMaxIdlePerHost: 0 });
const ask = (url: string, init: RequestInit = {}) => fetch(url, { ...init, client });

const encode = (text: string) => new TextEncoder().encode(text);

async function serve(limits: Partial<Limits> = {}, memory = false) {
  const stack = new AsyncDisposableStack();
  const dir = await Deno.makeTempDir({ prefix: "svc-hostile-" });
  stack.defer(() => Deno.remove(dir, { recursive: true }));
  await Deno.writeTextFile(`${dir}/secret`, "not to be seen");
  const store = stack.use(
    createContentStore(memory ? openMemStore() : await openFsStore(`${dir}/store`), {
      log: silent,
    }),
  );
  const lifecycle = new Lifecycle();
  lifecycle.serving();
  const handler = createHandler({
    router: new Router(createRegistry({ reader: store, writer: store })),
    access: openAccess,
    lifecycle,
    log: silent,
  });
  const listener = await listen({ hostname: "127.0.0.1", port: 0, limits }, handler);
  stack.defer(() => listener.close());
  const { port } = listener.address;
  return {
    dir,
    store,
    port,
    base: `http://127.0.0.1:${port}`,
    async start(repository = "app"): Promise<string> {
      const response = await ask(`http://127.0.0.1:${port}/v2/${repository}/blobs/uploads/`, {
        method: "POST",
      });
      assert.equal(response.status, 202);
      return response.headers.get("location")!;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

type Serving = Awaited<ReturnType<typeof serve>>;

async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 60_000;
  while (!await condition()) {
    assert.ok(performance.now() < end, `${what}: not within a minute`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function dial(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {/* it is cut on purpose */});
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  return socket;
}

/** One request as it stands: fetch would normalise its path. */
async function raw(port: number, method: string, target: string, body = ""): Promise<string> {
  const socket = await dial(port);
  let text = "";
  socket.on("data", (bytes) => text += bytes.toString("utf8"));
  const length = method === "GET" || method === "HEAD" ? "" : `content-length: ${body.length}\r\n`;
  socket.write(
    `${method} ${target} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n${length}\r\n${body}`,
  );
  await new Promise<void>((resolve) => socket.once("close", () => resolve()));
  return text;
}

async function files(dir: string): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of Deno.readDir(dir)) {
    const path = `${dir}/${entry.name}`;
    if (entry.isDirectory) found.push(...await files(path));
    else found.push(path);
  }
  return found.sort();
}

const some = digestOf(encode("x"));
const NAMES = [
  "..",
  "a/..",
  "%2e%2e",
  "a/%2e%2e/%2e%2e/secret",
  "..%2f..%2fsecret",
  "a%2f..%2f..%2f..%2fsecret",
  "a%2F%2e%2e%2Fsecret",
  "a\\..\\secret",
  "a%5c..%5csecret",
  "a%00b",
  "%00",
  "a%0d%0ab",
  "a%20b",
  "a//b",
  "a%2f%2fb",
  "a%2f",
  "%2fa",
  "A",
  "%c3%a9",
  "%ef%bd%81",
  "%c0%ae%c0%ae%c0%afsecret",
  "%e2%80%aea",
  "%ff",
  "%zz",
  "%",
  ".a",
  "-a",
  "a..b",
  "a%252e%252e",
  "~root",
  "con:",
  "a".repeat(256),
  "a/".repeat(200) + "a",
  `${"a%2f".repeat(3000)}a`,
];
const REFERENCES = [
  "..",
  "%2e%2e",
  "..%2f..%2fsecret",
  "a%2fb",
  "a%5cb",
  "v1%00",
  "%00",
  "v%0a1",
  "%c3%a9",
  "%ff",
  "-v1",
  ".v1",
  "t".repeat(129),
  "t".repeat(8000),
  "v1%20",
  "sha256:..%2f..%2fsecret",
  `sha256%3a${"g".repeat(64)}`,
];

Deno.test("hostile names, tags and ids are refused and touch nothing", async () => {
  await using it = await serve();
  const before = await files(it.dir);
  const requests = [
    ...NAMES.flatMap((name) => [
      ["GET", `/v2/${name}/tags/list`],
      ["GET", `/v2/${name}/manifests/v1`],
      ["PUT", `/v2/${name}/manifests/v1`],
      ["GET", `/v2/${name}/blobs/${some}`],
      ["GET", `/v2/${name}/referrers/${some}`],
      ["POST", `/v2/${name}/blobs/uploads/`],
      ["POST", `/v2/app/blobs/uploads/?mount=${some}&from=${name}`],
    ]),
    ...REFERENCES.flatMap((reference) => [
      ["GET", `/v2/app/manifests/${reference}`],
      ["PUT", `/v2/app/manifests/${reference}`],
      ["PUT", `/v2/app/manifests/v1?tag=${reference}`],
      ["DELETE", `/v2/app/manifests/${reference}`],
      ["GET", `/v2/app/blobs/${reference}`],
      ["DELETE", `/v2/app/blobs/${reference}`],
      ["GET", `/v2/app/referrers/${reference}`],
      ["POST", `/v2/app/blobs/uploads/?digest=${reference}`],
      ["GET", `/v2/app/blobs/uploads/${reference}`],
      ["PATCH", `/v2/app/blobs/uploads/${reference}`],
      ["PUT", `/v2/app/blobs/uploads/${reference}?digest=${some}`],
      ["DELETE", `/v2/app/blobs/uploads/${reference}`],
    ]),
  ];
  // A mount from what cannot be read as a query is one without a source: it starts an upload.
  const starts = (method: string, target: string) => method === "POST" && target.includes("mount=");
  for (const [method, target] of requests) {
    const answer = await raw(it.port, method, target, "{}");
    const status = Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1]);
    const what = `${method} ${target.slice(0, 120)}: ${answer.slice(0, 200)}`;
    if (!starts(method, target) || status !== 202) assert.ok(status >= 400 && status < 500, what);
    assert.ok(!answer.includes("not to be seen"), what);
    assert.ok(answer.length < 20_000, what);
  }
  const left = (await files(it.dir)).filter((path) => !path.includes("/uploads/"));
  assert.deepEqual(left, before);
  assert.deepEqual(await (await ask(`${it.base}/v2/_catalog`)).json(), { repositories: [] });
});

Deno.test("digests of other algorithms, or badly written, are refused everywhere", async () => {
  await using it = await serve();
  const digests = [
    `md5:${"a".repeat(32)}`,
    `sha1:${"a".repeat(40)}`,
    `sha384:${"a".repeat(96)}`,
    `sha512:${"a".repeat(64)}`,
    `blake3:${"a".repeat(64)}`,
    `sha256:${"A".repeat(64)}`,
    `SHA256:${"a".repeat(64)}`,
    `sha256:${"a".repeat(63)}`,
    `sha256:${"a".repeat(65)}`,
    `sha256+b64:${"a".repeat(64)}`,
    `sha256:${"a".repeat(64)}%0a`,
    "sha256:",
    ":",
  ];
  for (const digest of digests) {
    const location = await it.start();
    for (
      const [method, path] of [
        ["GET", `/v2/app/blobs/${digest}`],
        ["DELETE", `/v2/app/blobs/${digest}`],
        ["GET", `/v2/app/manifests/${digest}`],
        ["DELETE", `/v2/app/manifests/${digest}`],
        ["PUT", `/v2/app/manifests/${digest}`],
        ["GET", `/v2/app/referrers/${digest}`],
        ["GET", `/v2/app/referrers/${some}?last=${digest}`],
        ["POST", `/v2/app/blobs/uploads/?digest=${digest}`],
        ["POST", `/v2/app/blobs/uploads/?mount=${digest}&from=app`],
        ["PUT", `${location}?digest=${digest}`],
      ]
    ) {
      const body = method === "PUT" || method === "POST" ? "x" : undefined;
      const response = await ask(it.base + path.replace(/\+/g, "%2B"), { method, body });
      const { errors } = await response.json();
      assert.equal(
        `${response.status} ${errors[0].code}`,
        "400 DIGEST_INVALID",
        `${method} ${path}`,
      );
    }
    assert.equal((await ask(it.base + location, { method: "DELETE" })).status, 204);
  }
});

Deno.test("chunks sent to one upload at the same time: one of each place is taken", async () => {
  await using it = await serve();
  const location = await it.start();
  const part = encode("0123456789");
  const patch = (headers: Record<string, string>) =>
    ask(it.base + location, { method: "PATCH", body: part, headers });
  const same = await Promise.all(
    Array.from({ length: 8 }, () => patch({ "content-range": "0-9" })),
  );
  assert.deepEqual(same.map(({ status }) => status).sort(), [202, ...Array(7).fill(416)]);
  for (const { headers } of same) assert.equal(headers.get("range"), "0-9");
  for (const response of same) await response.body?.cancel();
  const streams = await Promise.all(Array.from({ length: 8 }, () => patch({})));
  assert.deepEqual(streams.map(({ status }) => status), Array(8).fill(202));
  for (const response of streams) await response.body?.cancel();
  const whole = encode("0123456789".repeat(9));
  const commits = await Promise.all(Array.from({ length: 4 }, async () => {
    const response = await ask(`${it.base}${location}?digest=${digestOf(whole)}`, {
      method: "PUT",
    });
    await response.body?.cancel();
    return response.status;
  }));
  assert.deepEqual(commits.sort(), [201, 404, 404, 404]);
  const blob = await ask(`${it.base}/v2/app/blobs/${digestOf(whole)}`);
  assert.deepEqual(new Uint8Array(await blob.arrayBuffer()), whole);
});

Deno.test("chunks that are malformed are the client's fault; what came before them is kept", async () => {
  for (const memory of [false, true]) {
    await using it = await serve({}, memory);
    for (const wrong of ["zz\r\n", "3\r\nabcd\r\n", "3\nabc\n", `1;${"x".repeat(5000)}\r\n`]) {
      const location = await it.start();
      const socket = await dial(it.port);
      let answer = "";
      socket.on("data", (bytes) => answer += bytes.toString("utf8"));
      const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
      const head = `PATCH ${location} HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n`;
      socket.write(`${head}a\r\n0123456789\r\n${wrong}GET /v2/ HTTP/1.1\r\nhost: h\r\n\r\n`);
      await closed;
      assert.match(answer, /^HTTP\/1\.1 400 [^]*BLOB_UPLOAD_INVALID/, wrong);
      assert.equal(answer.split("HTTP/1.1 ").length, 2, "what is behind them is not a request");
      const { headers } = await ask(it.base + location);
      // Of the chunk that is too long its own bytes were there.
      assert.match(headers.get("range")!, wrong.includes("abcd") ? /^0-(9|12)$/ : /^0-9$/, wrong);
    }
  }
});

const descriptors = () => [...Deno.readDirSync("/proc/self/fd")].length;

/** Uploads and downloads that their clients leave in the middle. */
async function vanish(it: Serving, digest: string, count: number): Promise<void> {
  const locations = await Promise.all(Array.from({ length: count }, () => it.start()));
  await Promise.all(locations.map(async (location, n) => {
    const upload = await dial(it.port);
    const framing = n % 2 === 0 ? "content-length: 50000000" : "transfer-encoding: chunked";
    upload.write(`PATCH ${location} HTTP/1.1\r\nhost: h\r\n${framing}\r\n\r\n`);
    if (n % 2 === 1) upload.write("800000\r\n");
    upload.write(new Uint8Array(4 * 1024 * 1024));
    const id = location.split("/").at(-1)!;
    await until("an upload begins", async () => {
      const path = (await files(it.dir)).find((path) => path.includes(id));
      return path !== undefined && (await Deno.stat(path)).size > 0;
    });
    upload.destroy();
    const download = await dial(it.port);
    download.write(`GET /v2/app/blobs/${digest} HTTP/1.1\r\nhost: h\r\n\r\n`);
    await new Promise((resolve) => download.once("data", resolve));
    download.destroy();
  }));
  for (const location of locations) {
    // What arrived is kept: the client may come back. Then it gives the upload up.
    assert.equal((await ask(it.base + location)).status, 204);
    assert.equal((await ask(it.base + location, { method: "DELETE" })).status, 204);
  }
}

Deno.test({
  name: "clients that vanish in the middle leave no descriptor and no file behind",
  ignore: Deno.build.os !== "linux",
  async fn() {
    await using it = await serve();
    const large = new Uint8Array(32 * 1024 * 1024);
    const digest = digestOf(large);
    const { length: size } = large;
    await it.store.putBlob("app", { digest, size }, ReadableStream.from([large]));
    // Threads and pools are made by the first ones, and stay.
    await vanish(it, digest, 10);
    const stored = await files(it.dir);
    let before = 0;
    await until("the first ones end", () => {
      const last = before;
      before = descriptors();
      return last === before;
    });
    await vanish(it, digest, 10);
    // One or two that the runtime opens for itself are not those of twenty connections.
    await until("descriptors are given back", () => descriptors() <= before + 3);
    assert.deepEqual(await files(it.dir), stored);
    const again = await ask(`${it.base}/v2/app/blobs/${digest}`);
    assert.equal(digestOf(new Uint8Array(await again.arrayBuffer())), digest);
  },
});

Deno.test("an upload that stands still frees its connection, and goes on where it was", async () => {
  await using it = await serve({ stallMs: 300 });
  const location = await it.start();
  const socket = await dial(it.port);
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.resume();
  socket.write(`PATCH ${location} HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\n0123456789`);
  await closed;
  await until("what came is kept", async () => {
    const { headers } = await ask(it.base + location);
    return headers.get("range") === "0-9";
  });
  const body = encode("abc");
  const headers = { "content-range": "10-12" };
  const rest = await ask(it.base + location, { method: "PATCH", body, headers });
  assert.equal(rest.status, 202);
  const digest = digestOf(encode("0123456789abc"));
  const done = await ask(`${it.base}${location}?digest=${digest}`, { method: "PUT" });
  assert.equal(done.status, 201);
});
