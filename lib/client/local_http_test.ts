import assert from "node:assert/strict";
import { type Answer, callLocally, localAddresses } from "./local_http.ts";

/** Answers each connection with `text`, after `until` was seen, and ends it. */
async function raw(text: string, act: (url: URL) => Promise<void>, until = "\r\n\r\n") {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = new URL(`http://127.0.0.1:${listener.addr.port}/a?b=c`);
  let asked = "";
  const serve = async (conn: Deno.Conn) => {
    using _conn = conn;
    const buffer = new Uint8Array(4096);
    while (!asked.includes(until)) {
      const size = await conn.read(buffer).catch(() => null);
      if (size === null) return;
      asked += new TextDecoder().decode(buffer.subarray(0, size));
    }
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length;) {
      const size = await conn.write(bytes.subarray(at)).catch(() => bytes.length);
      at += size;
    }
  };
  const serving = (async () => {
    for await (const conn of listener) await serve(conn);
  })();
  try {
    await act(url);
  } finally {
    listener.close();
    await serving;
  }
  return asked;
}

const get = { method: "GET", headers: {} };
const whole = async (answer: Answer) => [answer.status, await answer.text()];

Deno.test("local http: bodies by length, in chunks, up to the end, and none", async () => {
  const cases: [string, number, string][] = [
    ["HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcdef", 200, "abc"],
    [
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n2;x\r\nbc\r\n0\r\n\r\n",
      200,
      "abc",
    ],
    ["HTTP/1.0 200\r\n\r\nabc", 200, "abc"],
    ["HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n", 404, ""],
    ["HTTP/1.1 204 None\r\n\r\n", 204, ""],
    ["HTTP/1.1 307 There\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", 307, ""],
  ];
  for (const [text, status, body] of cases) {
    const asked = await raw(text, async (url) => {
      assert.deepEqual(await whole(await callLocally(url, get)), [status, body], text);
      const answer = await callLocally(url, get);
      const read = answer.body ? await new Response(answer.body).text() : "";
      assert.equal(read, body, text);
    });
    assert.match(
      asked,
      /^GET \/a\?b=c HTTP\/1\.1\r\nhost: 127\.0\.0\.1:\d+\r\nconnection: close\r\n\r\n/,
    );
  }
});

Deno.test("local http: an answer that is malformed, cut off or without an end is an error", async () => {
  const ok = "HTTP/1.1 200 OK\r\n";
  const cases: [string, RegExp][] = [
    ["", /closed without an answer/],
    ["HTTP/1.1 20", /not whole/],
    ["SSH-2.0-x\r\n\r\n", /status line/],
    ["\x16\x03\x01", /not HTTP/],
    [`${ok}a b: c\r\n\r\n`, /field is malformed/],
    [`${ok}content-length: 5\r\n\r\nabc`, /body is not whole/],
    [`${ok}content-length: 5\r\ncontent-length: 6\r\n\r\nabcdef`, /Content-Length/],
    [`${ok}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n`, /both/],
    [`${ok}transfer-encoding: chunked\r\n\r\n5\r\nabc`, /body is not whole/],
    [`${ok}transfer-encoding: chunked\r\n\r\nzz\r\n`, /chunks/],
    [`${ok}transfer-encoding: gzip\r\n\r\n`, /chunked/],
    [`${ok}a: ${"x".repeat(70_000)}\r\n\r\n`, /too large/],
    ["HTTP/1.1 103 Early\r\n\r\n".repeat(20), /without an end/],
    ["HTTP/1.1 101 Other\r\n\r\n", /another protocol/],
  ];
  for (const [text, expected] of cases) {
    await raw(text, async (url) => {
      const failure = await callLocally(url, get).then(whole).catch((error) => error.message);
      assert.match(String(failure), expected, `${text.slice(0, 60)} gave ${failure}`);
    });
  }
});

Deno.test("local http: bodies are sent whole, and an answer before their end counts", async () => {
  const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
  const parts = ["ab", "", "c"].map((part) => new TextEncoder().encode(part));
  const asked = await raw(ok, async (url) => {
    const call = { method: "POST", headers: { a: "b" }, body: ReadableStream.from(parts) };
    assert.deepEqual(await whole(await callLocally(url, call)), [200, "ok"]);
  }, "0\r\n\r\n");
  assert.match(asked, /a: b\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n$/);
  const text = await raw(ok, async (url) => {
    await whole(await callLocally(url, { method: "POST", headers: {}, body: "ä" }));
  }, "ä");
  assert.match(text, /content-length: 2\r\n\r\nä$/);
  let cancelled = false;
  const endless = new ReadableStream<Uint8Array>({ cancel: () => void (cancelled = true) });
  await raw(ok, async (url) => {
    const answer = await callLocally(url, { method: "POST", headers: {}, body: endless });
    assert.deepEqual(await whole(answer), [200, "ok"]);
  });
  assert.ok(cancelled);
});

Deno.test("local http: a body that fails ends the call with its error", async () => {
  const failing = ReadableStream.from((async function* () {
    yield new Uint8Array(1);
    throw new Error("the file is gone");
  })());
  await raw("", async (url) => {
    const call = { method: "POST", headers: {}, body: failing };
    await assert.rejects(callLocally(url, call), /the file is gone/);
  }, "never");
});

Deno.test("local http: an abort ends the call, and the body of its answer, with its reason", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = new URL(`http://127.0.0.1:${listener.addr.port}/`);
  const reason = new Error("enough");
  const before = new AbortController();
  const call = callLocally(url, { ...get, signal: before.signal });
  using _held = await listener.accept();
  before.abort(reason);
  await assert.rejects(call, (error) => error === reason);
  await assert.rejects(callLocally(url, { ...get, signal: before.signal }), (e) => e === reason);
  const after = new AbortController();
  const answering = callLocally(url, { ...get, signal: after.signal });
  let conn = await listener.accept();
  // The call whose signal had ended may have connected.
  const buffer = new Uint8Array(1024);
  while (await conn.read(buffer) === null) {
    conn.close();
    conn = await listener.accept();
  }
  await conn.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab"));
  const answer = await answering;
  after.abort(reason);
  await assert.rejects(answer.text(), (error) => error === reason);
  conn.close();
});

Deno.test("local http: a header cannot begin another one", async () => {
  await raw("", async (url) => {
    const call = { method: "GET", headers: { authorization: "Bearer a\r\nx: y" } };
    await assert.rejects(callLocally(url, call), /the header authorization has characters/);
  }, "never");
});

Deno.test("local http: only for this machine's loopback without TLS", () => {
  const of = (text: string) => localAddresses(new URL(text));
  assert.deepEqual(of("http://localhost:1"), ["127.0.0.1", "::1"]);
  assert.deepEqual(of("http://127.1.2.3:1"), ["127.1.2.3"]);
  assert.deepEqual(of("http://[::1]"), ["::1"]);
  for (const other of ["https://localhost", "http://10.0.0.1", "http://127.0.0.1.example.com"]) {
    assert.deepEqual(of(other), [], other);
  }
});
