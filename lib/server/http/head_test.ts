import assert from "node:assert/strict";
import fc from "fast-check";
import { parseSimpleHead, renderHead } from "./head.ts";

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
  fc.assert(fc.property(fc.dictionary(name, value), (fields) => {
    const lines = Object.entries(fields).map(([key, text]) => `${key}:${text}`);
    const parsed = parseSimpleHead(head("HEAD /x HTTP/1.1", "host:h", ...lines));
    assert.deepEqual(Object.fromEntries(parsed!.fields), { host: "h", ...fields });
  }));
});

Deno.test("head: no bytes make the parser throw or find a body", () => {
  fc.assert(fc.property(fc.string({ unit: "binary-ascii", maxLength: 60 }), (text) => {
    const parsed = parseSimpleHead(head("GET / HTTP/1.1", "host: h", text));
    if (parsed) assert(!parsed.fields.has("content-length") && !/[\r\n]/.test(text));
  }));
});

Deno.test("head: answers cannot be split", () => {
  const text = renderHead(200, ["a", "1"], "x: y\r\n");
  assert.match(text, /^HTTP\/1\.1 200 OK\r\na: 1\r\nx: y\r\ndate: [^\r]+ GMT\r\n\r\n$/);
  for (const value of ["1\r\nset-cookie: x", "1\n", "\0", "\u{1f600}"]) {
    assert.throws(() => renderHead(200, ["a", value], ""), TypeError);
  }
});
