/** Whatever a client sends, each connection to a workload carries one request, and node reads the same one. */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { Duplex as NodeStream } from "node:stream";
import fc from "fast-check";
import type { Duplex } from "../wire/duplex.ts";
import { duplexPair, RUNS, SEED } from "../wire/testing.ts";
import { world } from "./testing.ts";

/** Pieces that requests are made of, right and wrong. */
const PIECES = [
  ...["GET / HTTP/1.1\r\n", "POST /x HTTP/1.1\r\n", "POST /y HTTP/1.0\r\n", "Host: a.test\r\n"],
  ...["Content-Length: 5\r\n", "Content-Length: 0\r\n", "Content-Length: 40\r\n"],
  ...[
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Expect: 100-continue\r\n",
  ],
  ...["Connection: close\r\n", "Connection: content-length, host\r\n", "Connection: upgrade\r\n"],
  ...[
    "Upgrade: websocket\r\n",
    "X: y\r\n",
    " folded\r\n",
    "X : y\r\n",
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
  ],
  ...[
    "5\r\nabcde\r\n",
    "0\r\n\r\n",
    "5;x=y\r\nabcde\r\n",
    "0\r\nT: t\r\n\r\n",
    "5\r\n",
    "abcde",
    "\0",
    "\t ",
  ],
];

const WHOLE = [
  "GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n",
  "POST /b HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nabcde",
  "POST /c HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
];

/** Whole requests, some with a piece put in, taken out or doubled somewhere. */
const streams = fc.array(
  fc.tuple(
    fc.constantFrom(...WHOLE, ...WHOLE, PIECES.slice(0, 4).join("")),
    fc.option(fc.constantFrom(...PIECES), { freq: 2 }),
    fc.nat(120),
    fc.nat(6),
  ).map(([text, piece, at, cut]) =>
    piece === null ? text : text.slice(0, at) + piece + text.slice(at + cut)
  ),
  { minLength: 1, maxLength: 4 },
).map((parts) => parts.join(""));

const cuts = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 8 });

/** For node's server, which reads it as it reads a socket. */
function nodeStream(stream: Duplex): NodeStream {
  return new NodeStream({
    allowHalfOpen: true,
    read() {
      stream.read().then((bytes) => this.push(bytes ?? null), () => this.destroy());
    },
    write(bytes, _encoding, done) {
      stream.write(bytes).then(() => done(), done);
    },
    final(done) {
      stream.closeWrite().then(() => done(), done);
    },
    destroy(_error, done) {
      stream.reset();
      done(null);
    },
  });
}

Deno.test("fuzz: one request on each connection, the same for everybody", async () => {
  let reached = 0;
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(streams, cuts, async (text, sizes) => {
      const seen = new Map<unknown, string[]>();
      const errors: Error[] = [];
      const http = createServer(
        { requireHostHeader: true },
        (message: IncomingMessage, response) => {
          const requests = seen.get(message.socket) ?? [];
          seen.set(message.socket, requests);
          requests.push(`${message.method} ${message.url}`);
          assert.equal(message.headers.host, "a.test");
          message.resume();
          message.on("end", () => response.end("ok"));
          message.on("error", () => {});
        },
      );
      http.on("clientError", (error, socket) => {
        const { code } = error as { code?: string };
        // A client that stops in the middle of a body takes the connection with it; and node knows a list
        // of methods, where every token is one.
        if (code !== "ECONNRESET" && code !== "HPE_INVALID_METHOD") errors.push(error);
        socket.destroy();
      });
      await using there = world(() => Promise.resolve(), {
        dial() {
          const [near, far] = duplexPair();
          http.emit("connection", nodeStream(far) as unknown as Socket);
          return Promise.resolve(near);
        },
        limits: { headMs: 60_000, idleMs: 60_000 },
      });
      const client = there.open();
      const answer = client.rest();
      for (let at = 0, n = 0; at < text.length; n++) {
        const size = sizes[n % sizes.length];
        await client.send(text.slice(at, at + size));
        await new Promise((resolve) => setImmediate(resolve));
        at += size;
      }
      await client.end();
      refused += (await answer).text.match(/HTTP\/1\.1 4/g)?.length ?? 0;
      reached += seen.size;
      for (const [, requests] of seen) {
        assert.equal(requests.length, 1, JSON.stringify([text, requests]));
      }
      assert.deepEqual(errors.map(String), [], JSON.stringify(text));
      assert(seen.size <= there.dials());
    }),
    { numRuns: RUNS, seed: SEED },
  );
  // Both kinds were among them.
  assert(reached > RUNS / 4 && refused > RUNS / 10, `${reached} reached, ${refused} refused`);
});
