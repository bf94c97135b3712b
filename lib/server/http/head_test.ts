import assert from "node:assert/strict";
import fc from "fast-check";
import { runs } from "../../../test/fixtures/property.ts";
import { parseBodyHead, parseSimpleHead, renderHead } from "./head.ts";

const head = (...lines: string[]) => lines.join("\r\n") + "\r\n\r\n";

Deno.test("head: a simple request", () => {
  const parsed = parseSimpleHead(
    head("GET /v2/a/manifests/v1?x=%20 HTTP/1.1", "Host: x:5000", "ACCEPT:  a, b \t", "x-empty:"),
  );
  assert.equal(parsed?.method, "GET");
  assert.equal(parsed?.target, "/v2/a/manifests/v1?x=%20");
  assert.deepEqual([...parsed!.fields], [["host", "x:5000"], ["accept", "a, b"], ["x-empty", ""]]);
});

Deno.test("head: whatever could be read in two ways is not simple", () => {
  const host = "Host: x";
  const line = "GET / HTTP/1.1";
  for (
    const text of [
      head("POST / HTTP/1.1", host),
      head("GET / HTTP/1.0", host),
      head("GET http://x/ HTTP/1.1", host),
      head("GET  / HTTP/1.1", host),
      head("GET /a b HTTP/1.1", host),
      head("GET /\xe9 HTTP/1.1", host),
      head("get / HTTP/1.1", host),
      head(line),
      head(line, host, host),
      head(line, host, "Content-Length: 0"),
      head(line, host, "Transfer-Encoding: chunked"),
      head(line, host, "transfer-encoding : chunked"),
      head(line, host, " folded: 1"),
      head(line, host, "a: 1", "\tfolded"),
      head(line, host, "a\x00: 1"),
      head(line, host, "a: 1\x00"),
      head(line, host, "a: 1\rb: 2"),
      head(line, host, "a: 1\nContent-Length: 5"),
      head(line, host, "a: 1\x0b"),
      head(line, host, ": 1"),
      head(line, host, "no colon"),
      head(line, host, "Connection: close"),
      head(line, host, "Connection: upgrade", "Upgrade: websocket"),
      head(line, host, "Expect: 100-continue"),
      head(line, host) + "GET / HTTP/1.1\r\n",
      "\r\n" + head(line, host),
      `${line}\n${host}\n\n`,
      "",
    ]
  ) assert.equal(parseSimpleHead(text), undefined, JSON.stringify(text));
});

Deno.test("head: fields are what was sent, for any field that there may be", () => {
  const name = fc.stringMatching(/^x-[a-z0-9_.!#$%&'*+^`|~-]{1,20}$/);
  const value = fc.stringMatching(/^(?:[!-~](?:[ -~]{0,20}[!-~])?)?$/);
  fc.assert(
    fc.property(fc.dictionary(name, value), (fields) => {
      const lines = Object.entries(fields).map(([key, text]) => `${key}:${text}`);
      const parsed = parseSimpleHead(head("HEAD /x HTTP/1.1", "host:h", ...lines));
      assert.deepEqual(Object.fromEntries(parsed!.fields), { host: "h", ...fields });
    }),
    runs(100),
  );
});

Deno.test("head: no bytes make the parser throw or find a body", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary-ascii", maxLength: 60 }), (text) => {
      const parsed = parseSimpleHead(head("GET / HTTP/1.1", "host: h", text));
      if (parsed) assert(!parsed.fields.has("content-length") && !/[\r\n]/.test(text));
    }),
    runs(100),
  );
});

/** Heads of pieces that smugglers use, most of them a byte away from a good one. */
const smuggled = fc.tuple(
  fc.constantFrom("GET", "HEAD", "POST", "PUT", "PATCH", "POST ", "get"),
  fc.constantFrom("/", "/v2/a/blobs/uploads/", "/a b", "//", "*", "http://h/"),
  fc.constantFrom("HTTP/1.1", "HTTP/1.0", "HTTP/1.1 "),
  fc.array(
    fc.tuple(
      fc.constantFrom(
        "Host: h",
        "Content-Length: 5",
        "content-length:5",
        "Content-Length: 0005",
        "Content-Length: 5,5",
        "Transfer-Encoding: chunked",
        "transfer-encoding:\tChunked ",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding : chunked",
        " chunked",
        "Expect: 100-continue",
        "Expect: other",
        "Connection: keep-alive",
        "Connection: upgrade",
        "Upgrade: h2c",
        "TE: trailers",
        "x: y",
        "x",
        "",
      ),
      fc.constantFrom("\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\0\r\n"),
    ).map((line) => line.join("")),
    { maxLength: 5 },
  ),
).map(([method, target, version, lines]) =>
  `${method} ${target} ${version}\r\nHost: h\r\n${lines.join("")}\r\n`
);

Deno.test("head: what is taken can be read in one way only", () => {
  fc.assert(
    fc.property(smuggled, (text) => {
      const simple = parseSimpleHead(text);
      const bodied = parseBodyHead(text);
      assert(!simple || !bodied);
      const taken = simple ?? bodied;
      if (!taken) return;
      assert.match(text, /^[A-Z]+ \/[^ ]* HTTP\/1\.1\r\n(?:[^\s:]+:[^\r\n\0]*\r\n)*\r\n$/);
      const lines = text.split("\r\n").slice(1, -2);
      const named = (name: string) =>
        lines.filter((line) => line.toLowerCase().startsWith(`${name}:`))
          .map((line) => line.slice(name.length + 1).trim());
      assert.equal(taken.fields.size, lines.length, "a field twice");
      assert.equal(named("host").length, 1);
      for (const name of ["upgrade", "te"]) assert.deepEqual(named(name), []);
      const framing = [...named("content-length"), ...named("transfer-encoding")];
      if (simple) assert.deepEqual(framing, []);
      if (!bodied) return;
      assert(framing.length < 2);
      const expected = framing.length === 0 ? 0 : framing[0] === "5" ? 5 : undefined;
      assert.equal(bodied.length, expected);
      if (framing.length === 1 && expected === undefined) {
        assert.equal(framing[0].toLowerCase(), "chunked");
      }
    }),
    runs(2000),
  );
});

Deno.test("head: bodies are told by their length or their chunks", () => {
  const line = "PUT /v2/a/blobs/uploads/x HTTP/1.1";
  const read = (...fields: string[]) => {
    const parsed = parseBodyHead(head(line, "Host: h", ...fields));
    return parsed && [parsed.length, parsed.awaitsContinue];
  };
  assert.deepEqual(read(), [0, false]);
  assert.deepEqual(read("Content-Length: 0"), [0, false]);
  assert.deepEqual(read("Content-Length: 999999999999999"), [999999999999999, false]);
  assert.deepEqual(read("Transfer-Encoding: Chunked", "Expect: 100-Continue"), [undefined, true]);
  for (const length of ["", "-1", "+1", "1.0", "01", "1,1", "9007199254740993", "0x1"]) {
    assert.equal(read(`Content-Length: ${length}`), undefined, length);
  }
});

Deno.test("head: answers cannot be split", () => {
  const text = renderHead(200, ["a", "1"], "x: y\r\n");
  assert.match(text, /^HTTP\/1\.1 200 OK\r\na: 1\r\nx: y\r\ndate: [^\r]+ GMT\r\n\r\n$/);
  for (const value of ["1\r\nset-cookie: x", "1\n", "\0", "\u{1f600}"]) {
    assert.throws(() => renderHead(200, ["a", value], ""), TypeError);
  }
});
