import assert from "node:assert/strict";
import fc from "fast-check";
import { ChunkedDecoder, ChunkedError } from "./chunked.ts";

const encoder = new TextEncoder();

/** Body, and where it ended in all the bytes. */
function decode(bytes: Uint8Array, cuts: number[] = []): { body: string; end?: number } {
  const decoder = new ChunkedDecoder();
  let body = "";
  let from = 0;
  for (const to of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
    const piece = bytes.subarray(from, to);
    const end = decoder.feed(piece, (start, stop) => {
      body += new TextDecoder("latin1").decode(piece.subarray(start, stop));
    });
    if (end !== undefined) return { body, end: from + end };
    from = to;
  }
  return { body };
}

Deno.test("chunks: bodies, extensions, trailers, and what comes behind", () => {
  const table: [string, string, number?][] = [
    ["0\r\n\r\n", "", 5],
    ["3\r\nabc\r\n0\r\n\r\n", "abc", 13],
    ["3;name=value\r\nabc\r\n00\r\n\r\nGET /", "abc", 25],
    ["A\r\n0123456789\r\n1\r\n!\r\n0\r\nA: b\r\nC: d\r\n\r\nrest", "0123456789!", 38],
    ["5\r\nab", "ab", undefined],
  ];
  for (const [text, body, end] of table) {
    const bytes = encoder.encode(text);
    for (let cut = 0; cut <= bytes.length; cut++) {
      assert.deepEqual(decode(bytes, [cut]), end === undefined ? { body } : { body, end }, text);
    }
  }
});

Deno.test("chunks: what could be read in two ways is refused", () => {
  for (
    const text of [
      "\r\n",
      " 3\r\nabc\r\n",
      "3 \r\nabc\r\n",
      "3\nabc\r\n",
      "0x3\r\nabc\r\n",
      "-3\r\nabc\r\n",
      "3\r\nabcd\r\n",
      "3\r\nabc\n0\r\n\r\n",
      "fffffffffffff\r\n",
      "0\r\n\n",
      "0\r\nA: b\n\r\n",
      "0\r\n\rx",
      `3;${"x".repeat(300)}\r\nabc`,
      `0\r\n${"x".repeat(9000)}`,
    ]
  ) {
    assert.throws(() => decode(encoder.encode(text)), ChunkedError, JSON.stringify(text));
  }
});

Deno.test("chunks: any body in any chunks and pieces comes out as it went in", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ minLength: 1, maxLength: 300 }), { maxLength: 8 }),
      fc.array(fc.nat(3000), { maxLength: 6 }),
      (chunks, cuts) => {
        const parts = chunks.flatMap((chunk) => [
          encoder.encode(`${chunk.length.toString(16)}\r\n`),
          chunk,
          encoder.encode("\r\n"),
        ]);
        const bytes = new Uint8Array(
          [...parts, encoder.encode("0\r\n\r\n"), encoder.encode("next")].flatMap((p) => [...p]),
        );
        const latin = new TextDecoder("latin1");
        assert.deepEqual(decode(bytes, cuts.filter((cut) => cut < bytes.length)), {
          body: chunks.map((chunk) => latin.decode(chunk)).join(""),
          end: bytes.length - 4,
        });
      },
    ),
    { seed: 7, numRuns: Number(Deno.env.get("SVC_TEST_RUNS") ?? 200) },
  );
});
