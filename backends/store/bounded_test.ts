/** Endpoints of Google's and Azure's kind that misbehave: every wait ends, with an error of the catalogue. */
import assert from "node:assert/strict";
import { freePort } from "../../test/fixtures/free_port.ts";
import { listen, respond } from "../../test/fixtures/raw_server.ts";
import { azureBucket } from "./azure.ts";
import { gcsBucket } from "./gcs.ts";
import type { Bucket, BucketOptions } from "./shared/bucket.ts";
import { readStretch } from "./shared/body.ts";
import { openBucket } from "./shared/store.ts";

/** Patient with answers, which a busy machine gives late; not with bodies. */
const PATIENT = { timeouts: { answerMs: 20_000, idleMs: 300 }, attempts: 2 };
const QUICK = { timeouts: { answerMs: 150, workMs: 200, idleMs: 150 }, attempts: 2 };

const KINDS: Record<string, (port: number, options?: BucketOptions) => Bucket> = {
  gcs: (port, options = QUICK) =>
    gcsBucket("gs://bucket", { ...options, env: { STORAGE_EMULATOR_HOST: `127.0.0.1:${port}` } }),
  azure: (port, options = QUICK) =>
    azureBucket(
      `azblob://bucket?endpoint=http://127.0.0.1:${port}/a&access_key=a&secret_key=aaaa`,
      options,
    ),
};

for (const [name, bucketAt] of Object.entries(KINDS)) {
  Deno.test(`${name}: an endpoint that never answers fails in bounded time`, async () => {
    await using silent = listen(() => Promise.resolve());
    await assert.rejects(openBucket(bucketAt(silent.port)), {
      code: "unavailable",
      message: /^Cannot open the store in .*:\/\/bucket: no answer for 150 ms$/,
    });
    // One may be given up before the endpoint has seen it.
    assert.ok(silent.requests() <= 2, `${silent.requests()} requests`);
  });

  Deno.test(`${name}: a caller that leaves is not held up`, async () => {
    await using silent = listen(() => Promise.resolve());
    const bucket = bucketAt(silent.port, { timeouts: { answerMs: 60_000 } });
    await assert.rejects(bucket.head("k", { signal: AbortSignal.timeout(50) }), {
      name: "TimeoutError",
    });
    bucket.close();
  });

  Deno.test(`${name}: nobody listens`, async () => {
    await assert.rejects(openBucket(bucketAt(freePort(), PATIENT)), {
      code: "upstream_failed",
      message: /no connection/,
    });
  });

  Deno.test(`${name}: a body that stalls is taken up where it was, and given up in the end`, async () => {
    const starts: number[] = [];
    await using stalling = listen(async (conn, head) => {
      const [, start, end] = /range: bytes=(\d+)-(\d+)/i.exec(head)!;
      starts.push(Number(start));
      const size = Number(end) + 1 - Number(start);
      await respond(
        conn,
        `HTTP/1.1 206 Partial Content\r\nContent-Length: ${size}\r\nETag: "e"\r\n` +
          `X-Goog-Generation: 1\r\nContent-Range: bytes ${start}-${end}/5000\r\n\r\n` +
          "x".repeat(Number(start) < 2000 ? 1000 : 0),
      );
    });
    const bucket = bucketAt(stalling.port, PATIENT);
    const body = readStretch(bucket, { key: "k", offset: 0, size: 5000, etag: "1" });
    let got = 0;
    await assert.rejects(async () => {
      for await (const chunk of body) got += chunk.length;
    }, { code: "unavailable", message: /nothing came for 300 ms/ });
    assert.equal(got, 2000);
    assert.deepEqual(starts, [0, 1000, 2000, 2000, 2000]);
    bucket.close();
  });

  Deno.test(`${name}: an overloaded service is tried again, then unavailable`, async () => {
    let busy = Infinity;
    await using service = listen((conn) =>
      respond(
        conn,
        busy-- > 0
          ? "HTTP/1.1 503 Busy\r\nx-ms-error-code: ServerBusy\r\nContent-Length: 0\r\n\r\n"
          : "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
      )
    );
    await assert.rejects(openBucket(bucketAt(service.port, PATIENT)), {
      code: "unavailable",
      message: /the service answers 503 ServiceUnavailable/,
    });
    assert.equal(service.requests(), 2);
    busy = 1;
    const bucket = bucketAt(service.port, PATIENT);
    assert.equal(await bucket.head("k"), undefined);
    bucket.close();
  });
}

Deno.test("azure: pieces are copied inside the service, by a signed address", async () => {
  const asked: { method: string; url: string; headers: Headers }[] = [];
  await using service = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (r) => {
    asked.push({ method: r.method, url: r.url, headers: new Headers(r.headers) });
    return new Response(null, { status: 201 });
  });
  const bucket = KINDS.azure(service.addr.port);
  const part = await bucket.copyPart({ key: "from", start: 5, end: 9 }, "to", "upload", 7);
  bucket.close();
  const [{ method, url, headers }] = asked;
  const { pathname, searchParams } = new URL(url);
  assert.deepEqual([method, pathname], ["PUT", "/a/bucket/to"]);
  assert.equal(searchParams.get("comp"), "block");
  assert.equal(searchParams.get("blockid"), part.etag);
  assert.equal(atob(part.etag), "upload-00007");
  assert.equal(headers.get("x-ms-source-range"), "bytes=5-9");
  const source = new URL(headers.get("x-ms-copy-source")!);
  assert.equal(source.pathname, "/a/bucket/from");
  assert.equal(source.searchParams.get("sp"), "r");
  assert.ok(source.searchParams.get("sig"));
});
