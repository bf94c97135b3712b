/** The S3 store against a real gateway: contracts, uploads that change hands, and a gateway that dies. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { openS3Store } from "../../backends/store/s3.ts";
import { Bucket } from "../../backends/store/s3/bucket.ts";
import { probeS3 } from "../../backends/store/s3/doctor.ts";
import { parseS3Location } from "../../backends/store/s3/location.ts";
import { PART } from "../../backends/store/s3/upload_state.ts";
import { silent } from "../../lib/base/log.ts";
import type { Digest } from "../../lib/oci/types.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import type { ObjectStore } from "../../lib/store/object_store.ts";
import { contentStoreContract } from "../contract/content_store.ts";
import { objectStoreContract } from "../contract/object_store.ts";
import { missingS3, type S3Server, startS3 } from "../peers/s3.ts";
import { baseImage, requireTools, runTool, startServer } from "./harness.ts";

const lacking = missingS3();
const { ignore } = lacking === undefined
  ? { ignore: false }
  : requireTools({ commands: ["radosgw", "ceph-mon", "ceph-osd", "ceph"] });

let peer: S3Server | undefined;
Deno.test.beforeAll(async () => {
  if (!ignore) peer = await startS3();
});
Deno.test.afterAll(async () => {
  await peer?.[Symbol.asyncDispose]();
});

/** Opens stores on one location, and closes them all. */
function opener(options: { conditional?: boolean } = {}) {
  const location = peer!.location();
  const opened: ObjectStore[] = [];
  return {
    location,
    open: async () => {
      const store = await openS3Store(location, options);
      opened.push(store);
      return store;
    },
    close: async () => {
      for (const store of opened) await store[Symbol.asyncDispose]();
    },
  };
}

const content = (objects: ObjectStore) => createContentStore(objects, { log: silent });

if (!ignore) {
  for (const conditional of [undefined, false]) {
    objectStoreContract(`s3${conditional === false ? " without conditions" : ""}`, async () => {
      const { open, close } = opener({ conditional });
      return { store: await open(), reopen: open, cleanup: close };
    }, { durable: true });
  }
  contentStoreContract("content over s3", async () => {
    const { open, close } = opener();
    const reopen = async () => content(await open());
    return { store: await reopen(), reopen, cleanup: close };
  }, { durable: true });
}

function test(name: string, fn: () => Promise<void>): void {
  Deno.test({ name: `s3: ${name}`, ignore, fn });
}

const random = (size: number) => {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += 65536) crypto.getRandomValues(bytes.subarray(at, at + 65536));
  return bytes;
};
const sha256 = (bytes: Uint8Array): Digest =>
  `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
const streamOf = (bytes: Uint8Array) =>
  ReadableStream.from((function* () {
    for (let at = 0; at < bytes.length; at += 300_000) yield bytes.slice(at, at + 300_000);
  })());
const read = async (body: { stream(): ReadableStream<Uint8Array> } | undefined) =>
  new Uint8Array(await new Response(body!.stream() as BodyInit).arrayBuffer());

/** What the bucket holds under a location, and that no multipart upload is open there. */
async function left(location: string): Promise<string[]> {
  const { ListMultipartUploadsCommand, S3Client } = await import("@aws-sdk/client-s3");
  const where = parseS3Location(location);
  const bucket = new Bucket(where);
  const keys = (await bucket.list("")).objects.map(({ key }) => key);
  bucket.close();
  const client = new S3Client({
    region: "us-east-1",
    endpoint: where.endpoint,
    forcePathStyle: true,
    credentials: where.credentials,
  });
  const open = await client.send(new ListMultipartUploadsCommand({ Bucket: where.bucket }));
  client.destroy();
  const ours = (open.Uploads ?? []).filter(({ Key }) => Key!.startsWith(where.prefix));
  // Claims are what pushes hold against garbage collection, for as long as it takes.
  return [...keys, ...ours.map(({ Key }) => `open: ${Key}`)].filter((key) =>
    !key.startsWith("objects/claims/") &&
    key !== "svc-store.json"
  );
}

test("an upload of many parts changes hands again and again", async () => {
  const { location, open, close } = opener();
  const bytes = random(5 * PART + 12345);
  let at = 0;
  for (const end of [100, PART - 1, PART + 1, 3 * PART, 3 * PART + 7, bytes.length]) {
    const store = await open();
    const upload = at === 0
      ? await store.uploads.create("u-1")
      : (await store.uploads.open("u-1"))!;
    assert.equal(upload.offset, at);
    const held = await read({ stream: () => upload.read() });
    assert.equal(sha256(held), sha256(bytes.subarray(0, at)));
    for (; at < end; at = upload.offset) {
      await upload.write(bytes.subarray(at, Math.min(end, at + 1_000_000)));
    }
    await upload.flush();
    const [listed] = await Array.fromAsync(store.uploads.list());
    assert.deepEqual([listed.id, listed.size], ["u-1", end]);
    await upload.close();
  }
  const store = await open();
  await (await store.uploads.open("u-1"))!.commit("blobs/x");
  assert.equal(sha256(await read(await store.get("blobs/x"))), sha256(bytes));
  assert.deepEqual(await left(location), ["objects/blobs/x"]);
  await close();
});

test("a large put and an aborted upload leave nothing behind", async () => {
  const { location, open, close } = opener();
  const store = await open();
  const bytes = random(2 * PART + 1);
  assert.deepEqual(await store.put("k", streamOf(bytes), { size: bytes.length }), {
    created: true,
  });
  assert.equal(sha256(await read(await store.get("k"))), sha256(bytes));
  const range = await store.get("k", { range: { start: PART - 5, end: 2 * PART } });
  assert.deepEqual(await read(range), bytes.subarray(PART - 5, 2 * PART + 1));
  await assert.rejects(store.put("k", streamOf(bytes), { size: 7 }), { code: "size_invalid" });
  assert.deepEqual(
    await store.put("k", streamOf(new Uint8Array(PART + 1)), { ifAbsent: true }),
    { created: false },
  );
  const upload = await store.uploads.create("u");
  await upload.write(bytes);
  await upload.flush();
  await upload.abort();
  assert.deepEqual(await left(location), ["objects/k"]);
  assert.equal((await store.stat("k"))?.size, bytes.length);
  await close();
});

test("requests of one upload reach two servers in turn", async () => {
  const { location, open, close } = opener();
  const servers: ContentStore[] = [content(await open()), content(await open())];
  const bytes = random(2 * PART + 999);
  const { id } = await servers[0].startUpload("a/b");
  let at = 0;
  for (const [turn, end] of [1000, PART + 5, PART + 6, 2 * PART, bytes.length].entries()) {
    const upload = (await servers[(turn + 1) % 2].openUpload("a/b", id))!;
    assert.equal(upload.offset, at);
    at = await upload.append(streamOf(bytes.subarray(at, end)), { at });
    assert.equal(at, end);
  }
  const last = (await servers[0].openUpload("a/b", id))!;
  await last.commit(sha256(bytes));
  assert.equal(sha256(await read(await servers[1].get("a/b", sha256(bytes)))), sha256(bytes));
  assert.equal(await servers[1].openUpload("a/b", id), undefined);
  const hex = sha256(bytes).slice(7);
  assert.deepEqual(await left(location), [`objects/blobs/sha256/${hex.slice(0, 2)}/${hex}`]);
  await close();
});

test("a writer that was overtaken cannot harm the upload", async () => {
  const { location, open, close } = opener();
  const [first, second] = [await open(), await open()];
  const old = await first.uploads.create("u");
  const bytes = random(2 * PART + 50);
  await old.write(bytes.subarray(0, PART + 10));
  await old.flush();
  const now = (await second.uploads.open("u"))!;
  assert.equal(
    sha256(await read({ stream: () => now.read() })),
    sha256(bytes.subarray(0, PART + 10)),
  );
  await now.write(bytes.subarray(PART + 10));
  await now.flush();
  assert.equal(await old.current!(), false);
  await assert.rejects(async () => {
    await old.write(new Uint8Array(2 * PART));
    await old.flush();
  }, { code: "conflict" });
  await now.commit("k");
  assert.equal(sha256(await read(await second.get("k"))), sha256(bytes));
  assert.deepEqual((await left(location)).filter((key) => key.startsWith("open")), []);
  for (const { id } of await Array.fromAsync(second.uploads.list())) {
    assert.equal(await second.uploads.open(id), undefined);
  }
  assert.deepEqual(await left(location), ["objects/k"]);
  await close();
});

test("the gateway dies in mid-upload: the request fails, and the upload goes on", async () => {
  const { open, close } = opener();
  const store = content(await open());
  const bytes = random(4 * PART);
  const first = await store.startUpload("r");
  const { id } = first;
  await first.append(streamOf(bytes.subarray(0, PART + 100)));
  await peer!.kill();
  const started = performance.now();
  await assert.rejects(first.append(streamOf(bytes.subarray(PART + 100))), {
    code: "upstream_failed",
    message: /no connection/,
  });
  assert.ok(performance.now() - started < 15_000);
  await assert.rejects(Array.fromAsync(store.tags("r")), { code: "upstream_failed" });
  await peer!.start();
  const again = (await store.openUpload("r", id))!;
  assert.ok(again.offset >= PART + 100 && again.offset <= bytes.length, `offset ${again.offset}`);
  await again.append(streamOf(bytes.subarray(again.offset)), { at: again.offset });
  await again.commit(sha256(bytes));
  assert.equal(sha256(await read(await store.get("r", sha256(bytes)))), sha256(bytes));
  await close();
});

test("svc is killed in mid-upload, and another server on the bucket goes on", async () => {
  const env = { SVC_STORAGE: peer!.location() };
  const bytes = random(3 * PART + 77);
  const half = PART + 4321;
  let location: string;
  {
    await using server = await startServer({ env });
    const begun = await fetch(`${server.url}/v2/big/blob/blobs/uploads/`, { method: "POST" });
    await begun.body?.cancel();
    location = begun.headers.get("location")!;
    const part = await fetch(server.url + location, {
      method: "PATCH",
      body: bytes.subarray(0, half),
      headers: { "content-range": `0-${half - 1}`, "content-type": "application/octet-stream" },
    });
    await part.body?.cancel();
    assert.equal(part.status, 202);
    await server.kill9();
  }
  await using server = await startServer({ env });
  const status = await fetch(server.url + location);
  assert.equal(status.headers.get("range"), `0-${half - 1}`);
  const done = await fetch(`${server.url}${location}?digest=${sha256(bytes)}`, {
    method: "PUT",
    body: bytes.subarray(half),
    headers: { "content-type": "application/octet-stream" },
  });
  assert.equal(done.status, 201, await done.text());
  const blob = await fetch(`${server.url}/v2/big/blob/blobs/${sha256(bytes)}`);
  assert.equal(sha256(new Uint8Array(await blob.arrayBuffer())), sha256(bytes));
});

/** What belongs to one connection, and is made anew for the next. */
const HOP = ["connection", "content-length", "host", "transfer-encoding"];

/** Sends each request to the next of several servers. */
function inTurn(servers: { url: string }[]) {
  let turn = 0;
  const refused: string[] = [];
  const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  const proxy = Deno.serve(options, async (request) => {
    const { pathname, search } = new URL(request.url);
    const headers = new Headers(request.headers);
    for (const name of HOP) headers.delete(name);
    const answer = await fetch(servers[turn++ % servers.length].url + pathname + search, {
      method: request.method,
      headers,
      body: request.body,
      redirect: "manual",
      signal: request.signal,
    });
    if (answer.status >= 400 && answer.status !== 404) {
      refused.push(`${request.method} ${pathname}: ${answer.status}`);
    }
    return answer;
  });
  return {
    host: `127.0.0.1:${proxy.addr.port}`,
    requests: () => turn,
    /** Answers that no push should get. */
    refused,
    [Symbol.asyncDispose]: () => proxy.shutdown(),
  };
}

test("skopeo pushes and pulls while its requests reach two servers in turn", async () => {
  const env = { SVC_STORAGE: peer!.location() };
  await using one = await startServer({ env });
  await using two = await startServer({ env });
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-s3-" });
  try {
    // 20 MB that do not compress: a layer of several parts.
    const layers: Record<string, string | Uint8Array>[] = [
      { "srv/large.bin": random(20_000_000) },
      { "srv/small.txt": "small\n" },
    ];
    for (const tag of ["v1", "v2"]) {
      await using proxy = inTurn([one, two]);
      const pushed = await baseImage(proxy, `team/app:${tag}`, { layers }).finally(() =>
        assert.deepEqual(proxy.refused, [])
      );
      const from = `docker://${proxy.host}/team/app:${tag}`;
      await runTool("skopeo", [
        ...["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false"],
        ...[from, `oci:${folder}:${tag}`],
      ]);
      const index = JSON.parse(await Deno.readTextFile(`${folder}/index.json`));
      assert.ok(index.manifests.some(({ digest }: { digest: string }) => digest === pushed.digest));
      assert.ok(proxy.requests() > 8);
    }
    for (const server of [one, two]) {
      const tags = await fetch(`${server.url}/v2/team/app/tags/list`);
      assert.deepEqual((await tags.json()).tags, ["v1", "v2"]);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
  assert.deepEqual((await left(env.SVC_STORAGE)).filter((key) => !key.startsWith("objects/")), []);
});

test("the doctor finds all it needs, and says what a wrong key lacks", async () => {
  const { location } = opener();
  for await (const { operation, ok, detail } of probeS3(location)) {
    assert.ok(ok, operation + detail);
  }
  assert.deepEqual(await left(location), []);
  const wrong = location.replace(/secret_key=[^&]*/, "secret_key=nonsense");
  const [only, ...more] = await Array.fromAsync(probeS3(wrong));
  assert.deepEqual(more, []);
  assert.match(only.detail, /the login is refused \(SignatureDoesNotMatch\)/);
  await assert.rejects(openS3Store(wrong), { code: "upstream_failed", message: /^(?!.*nonsense)/ });
  await assert.rejects(openS3Store(location.replace("svc-test", "svc-none")), {
    code: "upstream_failed",
    message: /no such bucket/,
  });
});
