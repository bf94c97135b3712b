/** Whatever a workload answers, its client is told one answer, and knows where that ends. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { RUNS, SEED } from "../wire/testing.ts";
import { answering, world } from "./testing.ts";

const PIECES = [
  ...["HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 204 No Content\r\n"],
  ...["HTTP/1.1 304 Not Modified\r\n", "HTTP/1.0 200 OK\r\n", "HTTP/1.1 101 Switching\r\n"],
  ...["Content-Length: 5\r\n", "Content-Length: 0\r\n", "Content-Length: 40\r\n", "X: y\r\n"],
  ...["Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip\r\n", "Connection: X\r\n"],
  ...["Connection: close\r\n", " folded\r\n", "\r\n", "\n", "\r", "\r\n\r\n", "\0", "abcde"],
  ...["5\r\nabcde\r\n", "0\r\n\r\n", "5\r\n", "0\r\nT: t\r\n\r\n"],
];

const EVIL = "HTTP/1.1 200 OK\r\nX-Evil: 1\r\nContent-Length: 0\r\n\r\n";

const WHOLE = [
  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
  `HTTP/1.1 200 OK\r\nContent-Length: ${EVIL.length}\r\n\r\n${EVIL}`,
  `HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 Not Found\r\nX: y\r\n\r\n${EVIL}`,
  "HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
];

const answers = fc.tuple(
  fc.constantFrom(...WHOLE),
  fc.array(fc.tuple(fc.constantFrom(...PIECES), fc.nat(120), fc.nat(8)), { maxLength: 3 }),
  fc.constantFrom("", EVIL),
).map(([text, changes, behind]) =>
  changes.reduce((all, [piece, at, cut]) => all.slice(0, at) + piece + all.slice(at + cut), text) +
  behind
);

/** What is left of `text` behind one answer; undefined: it is not one. */
function behindAnswer(text: string, method: string): string | undefined {
  const end = text.indexOf("\r\n\r\n") + 4;
  const head = text.slice(0, end);
  const status = Number(
    /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n(?:[^\r\n:]+: [^\r\n]*\r\n)*\r\n$/.exec(head)?.[1],
  );
  if (Number.isNaN(status)) return undefined;
  if (status < 200) return behindAnswer(text.slice(end), method);
  if (status === 204 || status === 304 || method === "HEAD") return text.slice(end);
  const length = /^Content-Length: (\d+)\r$/m.exec(head)?.[1];
  if (length !== undefined) {
    return text.length < end + Number(length) ? undefined : text.slice(end + Number(length));
  }
  if (!/^Transfer-Encoding: chunked\r$/m.test(head)) return undefined;
  for (let at = end;;) {
    const line = /^([0-9a-f]+)\r\n/.exec(text.slice(at));
    if (!line) return undefined;
    const size = Number.parseInt(line[1], 16);
    at += line[0].length + size + 2;
    if (text.slice(at - 2, at) !== "\r\n") return undefined;
    if (size === 0) return text.slice(at);
  }
}

Deno.test("fuzz: one answer, and behind it the next one", async () => {
  let whole = 0;
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(answers, fc.constantFrom("GET", "HEAD", "POST"), async (text, method) => {
      await using there = world(answering(text));
      const client = there.open();
      await client.send(
        `${method} / HTTP/1.1\r\nHost: a.test\r\n\r\n` +
          "GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n",
      );
      const got = await client.rest();
      await client.end();
      // Cut off in the middle: the client sees that.
      if (got.broken) return;
      const next = behindAnswer(got.text, method);
      assert(next !== undefined, JSON.stringify([text, got.text]));
      assert.match(next, /^HTTP\/1\.1 404 Not Found\r\n[^]*\r\n\r\nsvc: no deployment answers/);
      assert.equal(behindAnswer(next, "GET"), "");
      if (/^HTTP\/1\.1 502 /.test(got.text)) refused++;
      else whole++;
    }),
    { numRuns: RUNS, seed: SEED },
  );
  // Both kinds were among them.
  assert(whole > RUNS / 5 && refused > RUNS / 10, `${whole} whole, ${refused} refused`);
});
