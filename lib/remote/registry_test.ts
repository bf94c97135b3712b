import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { silent } from "../base/log.ts";
import { digestOf } from "../oci/digest.ts";
import { MEDIA } from "../oci/types.ts";
import {
  answerRange,
  breakAfter,
  type FakeRegistry,
  startFakeRegistry,
} from "../../test/peers/fake_registry.ts";
import { freePort } from "../../test/fixtures/free_port.ts";
import { createRemoteRegistry, type RemoteRegistryOptions } from "./registry.ts";

const client = (fake: FakeRegistry, more: Partial<RemoteRegistryOptions> = {}) =>
  createRemoteRegistry({
    host: fake.host,
    userAgent: "svc-test",
    log: silent,
    attempts: 3,
    pauseMs: 1,
    stallMs: 2000,
    ...more,
  });

const bytesOf = async (stream: ReadableStream<Uint8Array>) =>
  new Uint8Array(
    await new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer(),
  );

const code = (wanted: string) => (error: unknown) =>
  error instanceof SvcError && error.code === wanted ||
  assert.fail(`wanted ${wanted}, got ${error}`);

const noise = (size: number) => {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size; at += 65536) {
    crypto.getRandomValues(bytes.subarray(at, Math.min(size, at + 65536)));
  }
  return bytes;
};

function add(fake: FakeRegistry, bytes: Uint8Array<ArrayBuffer>): string {
  const digest = digestOf(bytes);
  fake.blobs.set(digest, bytes);
  return digest;
}

Deno.test("remote: a manifest is read by tag and digest, a missing one is undefined", async () => {
  await using fake = startFakeRegistry();
  const bytes = new TextEncoder().encode('{"schemaVersion":2}');
  fake.manifests.set("a/b/v1", { type: MEDIA.manifest, bytes });
  fake.manifests.set(`a/b/${digestOf(bytes)}`, { type: MEDIA.manifest, bytes });
  const remote = client(fake);
  const found = await remote.resolve("a/b", "v1");
  assert.deepEqual(found, {
    descriptor: { mediaType: MEDIA.manifest, digest: digestOf(bytes), size: bytes.length },
    bytes,
  });
  assert.deepEqual(await remote.resolve("a/b", digestOf(bytes)), found);
  assert.equal(await remote.resolve("a/b", "v2"), undefined);
  assert.match(fake.seen[0].headers.get("accept")!, /oci\.image\.index.*docker/);
  assert.equal(fake.seen[0].headers.get("user-agent"), "svc-test");
});

Deno.test("remote: a manifest with another digest, or too large a one, is refused", async () => {
  await using fake = startFakeRegistry();
  const other = digestOf(new Uint8Array([1]));
  fake.manifests.set(`a/${other}`, { type: MEDIA.manifest, bytes: new Uint8Array([2]) });
  fake.manifests.set("a/big", { type: MEDIA.manifest, bytes: new Uint8Array(4 * 1024 * 1024 + 1) });
  await assert.rejects(client(fake).resolve("a", other), code("digest_invalid"));
  await assert.rejects(client(fake).resolve("a", "big"), code("manifest_too_large"));
});

Deno.test("remote: a broken read goes on with a range, and is verified as a whole", async () => {
  await using fake = startFakeRegistry();
  const bytes = noise(300_000);
  const digest = add(fake, bytes);
  let reads = 0;
  fake.serveBlob = (whole, request) => {
    const answer = answerRange(whole, request);
    if (++reads > 2) return answer;
    const start = Number(/=(\d+)/.exec(request.headers.get("range") ?? "=0")![1]);
    return breakAfter(answer, whole.slice(start), 100_000);
  };
  const body = await client(fake).get("r", digest);
  assert.equal(body!.size, bytes.length);
  assert.deepEqual(await bytesOf(body!.stream()), bytes);
  assert.equal(reads, 3);
  const ranges = fake.seen.filter((s) => s.line.startsWith("GET")).map((s) =>
    s.headers.get("range")
  );
  assert.deepEqual(ranges, [null, "bytes=100000-299999", "bytes=200000-299999"]);
});

Deno.test("remote: a registry that ignores ranges is read from the front again", async () => {
  await using fake = startFakeRegistry();
  const bytes = noise(50_000);
  const digest = add(fake, bytes);
  let reads = 0;
  fake.serveBlob = (whole) =>
    ++reads === 1 ? breakAfter(new Response(), whole, 20_000) : new Response(whole);
  const remote = client(fake);
  assert.deepEqual(await bytesOf((await remote.get("r", digest))!.stream()), bytes);
  const part = await remote.get("r", digest, { range: { start: 10, end: 19 } });
  assert.equal(part!.size, 10);
  assert.deepEqual(await bytesOf(part!.stream()), bytes.slice(10, 20));
});

Deno.test("remote: reads that keep breaking, wrong bytes and short bodies fail", async () => {
  await using fake = startFakeRegistry();
  const bytes = noise(1000);
  const digest = add(fake, bytes);
  let reads = 0;
  fake.serveBlob = (whole) => (reads++, breakAfter(new Response(), whole, 0));
  const read = async () => await bytesOf((await client(fake).get("r", digest))!.stream());
  await assert.rejects(read(), code("upstream_failed"));
  assert.equal(reads, 3);
  fake.serveBlob = (whole) => new Response(whole.map((b) => b ^ 1));
  await assert.rejects(read(), code("digest_invalid"));
});

Deno.test("remote: silence in the middle of a body ends it, and it goes on", async () => {
  await using fake = startFakeRegistry();
  const bytes = noise(1000);
  const digest = add(fake, bytes);
  fake.serveBlob = (whole, request) => {
    if (request.headers.has("range")) return answerRange(whole, request);
    const silent = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(whole.slice(0, 400)),
    });
    return new Response(silent, { headers: { "content-length": "1000" } });
  };
  const body = await client(fake, { stallMs: 150, attempts: 20 }).get("r", digest);
  assert.deepEqual(await bytesOf(body!.stream()), bytes);
  assert.equal(fake.seen.at(-1)!.headers.get("range"), "bytes=400-999");
});

Deno.test("remote: storage behind a redirect sees no credential", async () => {
  await using fake = startFakeRegistry();
  await using storage = startFakeRegistry();
  const bytes = noise(10);
  const digest = add(fake, bytes);
  storage.intercept = () => new Response(bytes);
  fake.intercept = (request, url) => {
    if (!request.headers.has("authorization")) {
      return new Response(null, {
        status: 401,
        headers: { "www-authenticate": 'Basic realm="x"' },
      });
    }
    if (request.method === "GET" && url.pathname.includes("/blobs/")) {
      return new Response(null, {
        status: 307,
        headers: { location: `http://${storage.host}/bucket/x` },
      });
    }
  };
  const remote = client(fake, {
    credentials: () => Promise.resolve({ username: "me", password: "pä:ss" }),
  });
  assert.deepEqual(await bytesOf((await remote.get("r", digest))!.stream()), bytes);
  assert.equal(storage.seen.length, 1);
  assert.equal(storage.seen[0].headers.get("authorization"), null);
  const sent = fake.seen.at(-1)!.headers.get("authorization")!.slice("Basic ".length);
  const text = new TextDecoder().decode(Uint8Array.from(atob(sent), (c) => c.charCodeAt(0)));
  assert.equal(text, "me:pä:ss");
});

Deno.test("remote: redirects in circles end", async () => {
  await using fake = startFakeRegistry();
  fake.intercept = (_, url) =>
    new Response(null, { status: 302, headers: { location: url.pathname } });
  await assert.rejects(client(fake).resolve("a", "v1"), code("upstream_failed"));
});

Deno.test("remote: passing failures are tried again with an end, others are not", async () => {
  await using fake = startFakeRegistry();
  const bytes = new TextEncoder().encode("{}");
  fake.manifests.set("a/v1", { type: MEDIA.manifest, bytes });
  let failing = 2;
  let status = 503;
  fake.intercept = () =>
    failing-- > 0 ? new Response(null, { status, headers: { "retry-after": "0" } }) : undefined;
  assert.ok(await client(fake).resolve("a", "v1"));
  assert.equal(fake.seen.length, 3);
  failing = Infinity;
  status = 429;
  await assert.rejects(client(fake).resolve("a", "v1"), code("unavailable"));
  assert.equal(fake.seen.length, 6);
  status = 403;
  await assert.rejects(client(fake).resolve("a", "v1"), code("denied"));
  assert.equal(fake.seen.length, 7);
});

Deno.test("remote: nobody listening, and an abort, are told apart", async () => {
  const host = `127.0.0.1:${freePort()}`;
  const gone = createRemoteRegistry({
    host,
    userAgent: "x",
    log: silent,
    attempts: 2,
    pauseMs: 1,
  });
  await assert.rejects(gone.resolve("a", "v1"), code("upstream_failed"));
  await using fake = startFakeRegistry();
  const stop = new AbortController();
  fake.intercept = async () => {
    stop.abort();
    await new Promise((resolve) => setTimeout(resolve, 50));
    return undefined;
  };
  await assert.rejects(client(fake).resolve("a", "v1", { signal: stop.signal }), {
    name: "AbortError",
  });
  assert.equal(fake.seen.length, 1);
});

Deno.test("remote: tags over pages, in order, after a tag; endless pages end", async () => {
  await using fake = startFakeRegistry();
  fake.intercept = (_, url) => {
    if (!url.pathname.endsWith("/tags/list")) return;
    const second = url.searchParams.has("last");
    return Response.json({ name: "r", tags: second ? ["c", "d"] : ["b", "a"] }, {
      headers: second ? {} : { link: '</v2/r/tags/list?last=b&n=2>; rel="next"' },
    });
  };
  assert.deepEqual(await Array.fromAsync(client(fake).tags("r")), ["a", "b", "c", "d"]);
  fake.intercept = (_, url) =>
    Response.json({ tags: [] }, { headers: { link: `<${url.href}>; rel="next"` } });
  await assert.rejects(Array.fromAsync(client(fake).tags("r")), code("upstream_failed"));
  fake.intercept = undefined;
  assert.deepEqual(await Array.fromAsync(client(fake).tags("missing")), []);
});

Deno.test("remote: listings that are none, have no end, or lead elsewhere fail as the upstream's", async () => {
  await using fake = startFakeRegistry();
  const subject = digestOf(new Uint8Array([1]));
  const piece = new TextEncoder().encode('"a",'.repeat(100_000));
  let pieces = 0;
  const answers: Record<string, () => Response> = {
    "no JSON": () => new Response("<html>"),
    "a list": () => Response.json([1]),
    "null": () => Response.json(null),
    "without end": () =>
      new Response(
        new ReadableStream({
          start: (controller) => controller.enqueue(new TextEncoder().encode('{"tags":[')),
          pull(controller) {
            pieces++;
            controller.enqueue(piece);
          },
        }),
      ),
    "elsewhere": () =>
      Response.json({ tags: ["a"] }, {
        headers: { link: '<http://192.0.2.1/v2/r/tags/list?last=a>; rel="next"' },
      }),
  };
  for (const [name, answer] of Object.entries(answers)) {
    fake.intercept = answer;
    const remote = client(fake);
    await assert.rejects(Array.fromAsync(remote.tags("r")), code("upstream_failed"), name);
    await assert.rejects(
      Array.fromAsync(remote.referrers("r", subject)),
      code("upstream_failed"),
      name,
    );
  }
  // Twice 32 MiB, and what the connections hold.
  assert.ok(pieces * piece.length < 200 * 1024 * 1024, `${pieces} pieces`);
  fake.intercept = () =>
    Response.json({ tags: ["b", 1, null, "a"], manifests: [null, {}, subject] });
  assert.deepEqual(await Array.fromAsync(client(fake).tags("r")), ["a", "b"]);
  assert.deepEqual(await Array.fromAsync(client(fake).referrers("r", subject)), []);
  fake.intercept = () => Response.json({ tags: "abc", manifests: {} });
  assert.deepEqual(await Array.fromAsync(client(fake).tags("r")), []);
  assert.deepEqual(await Array.fromAsync(client(fake).referrers("r", subject)), []);
});

Deno.test("remote: referrers, and the tag scheme where the registry has no such listing", async () => {
  await using fake = startFakeRegistry();
  const subject = digestOf(new Uint8Array([1]));
  const descriptor = { mediaType: MEDIA.manifest, digest: subject, size: 1 };
  const index = { schemaVersion: 2, manifests: [descriptor] };
  const bytes = new TextEncoder().encode(JSON.stringify(index));
  fake.manifests.set(`r/${subject.replace(":", "-")}`, { type: MEDIA.index, bytes });
  assert.deepEqual(await Array.fromAsync(client(fake).referrers("r", subject)), [descriptor]);
  fake.intercept = (_, url) =>
    url.pathname.includes("/referrers/") ? Response.json({ ...index, manifests: [] }) : undefined;
  assert.deepEqual(await Array.fromAsync(client(fake).referrers("r", subject)), []);
});
