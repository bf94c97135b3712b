/** Endpoints that misbehave: every wait ends, and what it ends with is in the catalogue. */
import assert from "node:assert/strict";
import { freePort } from "../../../test/fixtures/free_port.ts";
import { listen, respond } from "../../../test/fixtures/raw_server.ts";
import { openS3Store } from "../s3.ts";

/** Patient with answers, which a busy machine gives late; not with bodies. */
const PATIENT = { timeouts: { answerMs: 20_000, idleMs: 300 }, attempts: 2 };
const QUICK = { timeouts: { answerMs: 150, workMs: 200, idleMs: 150 }, attempts: 2 };

const location = (port: number) =>
  `s3://bucket?endpoint=http://127.0.0.1:${port}&path_style=true&access_key=a&secret_key=b`;

/** Enough of a bucket for a store to open: the marker is there and conditions are honoured. */
function opens(conn: Deno.Conn, head: string): Promise<void> | undefined {
  if (!head.includes("svc-store.json")) return undefined;
  if (head.startsWith("GET")) {
    return respond(
      conn,
      'HTTP/1.1 206 Partial Content\r\nContent-Length: 12\r\nContent-Range: bytes 0-11/12\r\nETag: "m"\r\n\r\n{"format":1}',
    );
  }
  return respond(conn, "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n");
}

Deno.test("s3: an endpoint that never answers fails in bounded time", async () => {
  await using silent = listen(() => Promise.resolve());
  const started = performance.now();
  await assert.rejects(openS3Store(location(silent.port), QUICK), {
    code: "unavailable",
    message: "Cannot open the store in s3://bucket: no answer for 150 ms",
  });
  const took = performance.now() - started;
  assert.ok(took > 250 && took < 120_000, `${took} ms`);
  // One may be given up before the endpoint has seen it.
  assert.ok(silent.requests() <= 2, `${silent.requests()} requests`);
});

Deno.test("s3: a caller that leaves is not held up", async () => {
  await using silent = listen((conn, head) => opens(conn, head) ?? Promise.resolve());
  await using store = await openS3Store(location(silent.port), { timeouts: { answerMs: 600_000 } });
  const started = performance.now();
  await assert.rejects(store.stat("k", { signal: AbortSignal.timeout(50) }), {
    name: "TimeoutError",
  });
  assert.ok(performance.now() - started < 300_000);
});

Deno.test("s3: nobody listens", async () => {
  await assert.rejects(openS3Store(location(freePort()), PATIENT), {
    code: "upstream_failed",
    message: /no connection/,
  });
});

Deno.test("s3: a body that stalls is taken up where it was, and given up in the end", async () => {
  const total = 200_000;
  const ranges: string[] = [];
  await using stalling = listen(async (conn, head) => {
    const known = opens(conn, head);
    if (known) return await known;
    const [, start, end] = /range: bytes=(\d+)-(\d+)/i.exec(head)!;
    ranges.push(`${start}-${end}`);
    const size = Number(end) + 1 - Number(start);
    // The first request whole; each later one gives 1000 bytes and then nothing, from 70,000 on none.
    const given = ranges.length === 1 ? size : Number(start) < 68_000 ? 1000 : 0;
    await respond(
      conn,
      `HTTP/1.1 206 Partial Content\r\nContent-Length: ${size}\r\nETag: "e"\r\n` +
        `Content-Range: bytes ${start}-${end}/${total}\r\n\r\n${"x".repeat(given)}`,
    );
  });
  await using store = await openS3Store(location(stalling.port), PATIENT);
  const body = await store.get("k");
  assert.equal(body?.size, total);
  let got = 0;
  await assert.rejects(async () => {
    for await (const chunk of body!.stream()) got += chunk.length;
  }, { code: "unavailable", message: /nothing came for 300 ms/ });
  assert.equal(got, 65_536 + 3000);
  assert.deepEqual(ranges, [
    "0-65535",
    "65536-199999",
    "66536-199999",
    "67536-199999",
    ...Array(3).fill("68536-199999"),
  ]);
});

Deno.test("s3: an overloaded service is tried again, then unavailable", async () => {
  let busy = Infinity;
  await using service = listen(async (conn, head) => {
    if (busy-- > 0) {
      const xml = "<Error><Code>SlowDown</Code><Message>later</Message></Error>";
      return await respond(
        conn,
        `HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nContent-Length: ${xml.length}\r\n\r\n${xml}`,
      );
    }
    await (opens(conn, head) ?? respond(conn, "HTTP/1.1 204 No Content\r\n\r\n"));
  });
  await assert.rejects(openS3Store(location(service.port), PATIENT), {
    code: "unavailable",
    message: /the service answers 503 SlowDown/,
  });
  assert.equal(service.requests(), 2);
  busy = 1;
  await (await openS3Store(location(service.port), PATIENT))[Symbol.asyncDispose]();
});
