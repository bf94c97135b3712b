/** The S3 store against a real gateway: contracts, uploads that change hands, and a gateway that dies. */
import assert from "node:assert/strict";
import { probeStorage } from "../../backends/store/mod.ts";
import { openS3Store, s3Bucket } from "../../backends/store/s3.ts";
import { parseS3Location } from "../../backends/store/s3/location.ts";
import { PART } from "../../backends/store/shared/upload_state.ts";
import type { Digest } from "../../lib/oci/types.ts";
import {
  type BucketService,
  bucketStoreTests,
  content,
  left,
  opener,
  random,
  read,
  sha256,
  streamOf,
} from "../contract/bucket_store.ts";
import { objectStoreContract } from "../contract/object_store.ts";
import { holdingWay } from "../fixtures/holding_way.ts";
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

const service: BucketService = {
  location: () => peer!.location(),
  bucket: (location) => s3Bucket(location),
  open: (location) => openS3Store(location),
  hidden: openMultiparts,
};

if (!ignore) {
  bucketStoreTests("s3", service);
  objectStoreContract("s3 without conditions", async () => {
    const { open, close } = opener({
      ...service,
      open: (location) => openS3Store(location, { conditional: false }),
    });
    return { store: await open(), reopen: open, cleanup: close };
  }, { durable: true });
}

function test(name: string, fn: () => Promise<void>): void {
  Deno.test({ name: `s3: ${name}`, ignore, fn });
}

/** Multipart uploads that are open below a location. */
async function openMultiparts(location: string): Promise<string[]> {
  const { ListMultipartUploadsCommand, S3Client } = await import("@aws-sdk/client-s3");
  const where = parseS3Location(location);
  const client = new S3Client({
    region: "us-east-1",
    endpoint: where.endpoint,
    forcePathStyle: true,
    credentials: where.credentials,
  });
  const open = await client.send(new ListMultipartUploadsCommand({ Bucket: where.bucket }));
  client.destroy();
  const ours = (open.Uploads ?? []).filter(({ Key }) => Key!.startsWith(where.prefix));
  return ours.map(({ Key }) => `open: ${Key}`);
}

test("the gateway dies in mid-upload: the request fails, and the upload goes on", async () => {
  const { open, close } = opener(service);
  const store = content(await open());
  const bytes = random(4 * PART);
  const first = await store.startUpload("r");
  const { id } = first;
  await first.append(streamOf(bytes.subarray(0, PART + 100)));
  await peer!.kill();
  await assert.rejects(first.append(streamOf(bytes.subarray(PART + 100))), {
    code: "upstream_failed",
    message: /no connection/,
  });
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

test("svc is killed while it removes a manifest: another server takes the next push, and keeps it", async () => {
  const location = peer!.location();
  const { endpoint } = peer!;
  await using way = await holdingWay(Number(new URL(endpoint).port));
  const through = location.replace(encodeURIComponent(endpoint), encodeURIComponent(way.url));
  await using one = await startServer({ env: { SVC_STORAGE: through } });
  await using two = await startServer({ env: { SVC_STORAGE: location } });
  const { digest } = await baseImage(one, "team/app:v1");
  const ask = async (method: string, reference: string, server = two) => {
    const answer = await fetch(`${server.url}/v2/team/app/manifests/${reference}`, { method });
    await answer.body?.cancel();
    return [answer.status, answer.headers.get("docker-content-digest")];
  };
  for (const kind of ["tags", "manifests"]) {
    const held = way.hold(new RegExp(`^DELETE \\S+/${kind}/`));
    const asked = ask("DELETE", digest, one).catch(() => {/* its server is killed */});
    await held;
    await one.kill9();
    await asked;
    assert.equal((await baseImage(two, "team/app:v1")).digest, digest);
    // What the dead one had sent comes late.
    await way.letGo();
    assert.deepEqual(await ask("GET", "v1"), [200, digest]);
    await one.restart();
  }
  assert.equal((await ask("DELETE", digest))[0], 202);
  for (const server of [one, two]) assert.equal((await ask("GET", "v1", server))[0], 404);
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
  assert.deepEqual(
    (await left(service, env.SVC_STORAGE)).filter((key) => !key.startsWith("objects/")),
    [],
  );
});

test("blobs come from the bucket itself where that is asked for, with skopeo and by ranges", async () => {
  const env = { SVC_STORAGE: peer!.location(), SVC_REGISTRY_REDIRECT: "true" };
  await using server = await startServer({ env });
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-s3-" });
  try {
    const large = random(9_000_000);
    await baseImage(server, "team/app:v1", { layers: [{ "srv/large.bin": large }] });
    await runTool("skopeo", [
      ...["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false"],
      ...[`docker://${server.host}/team/app:v1`, `dir:${folder}`],
    ]);
    const { layers } = JSON.parse(await Deno.readTextFile(`${folder}/manifest.json`));
    const { digest } = layers[0] as { digest: Digest };
    const pulled = await Deno.readFile(`${folder}/${digest.slice("sha256:".length)}`);
    assert.equal(sha256(pulled), digest);
    const blob = `${server.url}/v2/team/app/blobs/${digest}`;
    const sent = await fetch(blob, { redirect: "manual" });
    await sent.body?.cancel();
    assert.equal(sent.status, 307);
    assert.ok(sent.headers.get("location")!.startsWith(`${peer!.endpoint}/`));
    const part = await fetch(blob, { headers: { range: "bytes=100-199" } });
    assert.equal(part.status, 206);
    assert.deepEqual(new Uint8Array(await part.arrayBuffer()), pulled.subarray(100, 200));
    const head = await fetch(blob, { method: "HEAD", redirect: "manual" });
    assert.equal(head.headers.get("content-length"), String(pulled.length));
    const missing = await fetch(`${server.url}/v2/team/app/blobs/${sha256(large)}`);
    await missing.body?.cancel();
    assert.equal(missing.status, 404);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

test("the doctor says what a wrong key lacks", async () => {
  const location = service.location();
  const wrong = location.replace(/secret_key=[^&]*/, "secret_key=nonsense");
  const [only, ...more] = await Array.fromAsync(probeStorage(wrong));
  assert.deepEqual(more, []);
  assert.match(only.detail, /the login is refused \(SignatureDoesNotMatch\)/);
  await assert.rejects(openS3Store(wrong), { code: "upstream_failed", message: /^(?!.*nonsense)/ });
  await assert.rejects(openS3Store(location.replace("svc-test", "svc-none")), {
    code: "upstream_failed",
    message: /no such bucket/,
  });
});
