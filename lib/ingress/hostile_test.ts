/** Clients that mean harm, or are broken. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { duplexPair } from "../wire/testing.ts";
import { answering, type Talker, world } from "./testing.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LAST = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
const SECRET = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);
const H = "Host: a.test\r\n";
const POST = `POST / HTTP/1.1\r\n${H}`;
const CHUNKED = "Transfer-Encoding: chunked\r\n";

/** What could be read in two ways is one request to nobody: refused, and the connection closed. */
const REFUSED: [what: string, request: string, status?: number][] = [
  ["both framings", `${POST}Content-Length: 4\r\n${CHUNKED}\r\n0\r\n\r\n`],
  ["both framings, the other way round", `${POST}${CHUNKED}Content-Length: 4\r\n\r\n0\r\n\r\n`],
  ["two lengths", `${POST}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd`],
  ["a list of lengths", `${POST}Content-Length: 4, 4\r\n\r\nabcd`],
  ["a signed length", `${POST}Content-Length: +4\r\n\r\nabcd`],
  ["a negative length", `${POST}Content-Length: -1\r\n\r\n`],
  ["a length in hex", `${POST}Content-Length: 0x4\r\n\r\nabcd`],
  ["a length that is too long", `${POST}Content-Length: 99999999999999999999\r\n\r\n`],
  ["an empty length", `${POST}Content-Length:\r\n\r\n`],
  ["a length with blanks in it", `${POST}Content-Length: 1 4\r\n\r\n`],
  ["another coding", `${POST}Transfer-Encoding: gzip\r\n\r\n`],
  ["a coding before chunked", `${POST}Transfer-Encoding: gzip, chunked\r\n\r\n`],
  ["chunked and something", `${POST}Transfer-Encoding: chunked, identity\r\n\r\n`],
  ["two codings", `${POST}${CHUNKED}Transfer-Encoding: identity\r\n\r\n`],
  ["chunked twice", `${POST}${CHUNKED}${CHUNKED}\r\n0\r\n\r\n`],
  ["a coding in disguise", `${POST}Transfer-Encoding: xchunked\r\n\r\n`],
  ["a coding with a tab", `${POST}Transfer-Encoding:\tchunked\x0b\r\n\r\n`],
  ["a blank before the colon", `${POST}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n`],
  ["a folded field", `${POST}X: y\r\n Transfer-Encoding: chunked\r\n\r\n`],
  ["a folded coding", `${POST}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n`],
  ["a field without a colon", `${POST}Transfer-Encoding\r\n\r\n`],
  ["a field without a name", `${POST}: chunked\r\n\r\n`],
  ["a zero byte in a name", `${POST}Transfer\0-Encoding: chunked\r\n\r\n`],
  ["a zero byte in a value", `${POST}X: \0\r\n\r\n`],
  ["a CR in a value", `${POST}X: y\rTransfer-Encoding: chunked\r\n\r\n`],
  ["a line that ends with LF", `POST / HTTP/1.1\n${H}\r\n`],
  ["a field that ends with LF", `${POST}X: y\nTransfer-Encoding: chunked\r\n\r\n`],
  ["an empty line of LF", `${POST}\n`],
  ["chunks in HTTP/1.0", `POST / HTTP/1.0\r\n${H}${CHUNKED}\r\n0\r\n\r\n`],
  ["no host", "GET / HTTP/1.1\r\n\r\n"],
  ["two hosts", `GET / HTTP/1.1\r\n${H}Host: b.test\r\n\r\n`],
  ["the same host twice", `GET / HTTP/1.1\r\n${H}${H}\r\n`],
  ["a list of hosts", "GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n"],
  ["a host with a path", "GET / HTTP/1.1\r\nHost: a.test/x\r\n\r\n"],
  ["a host with a user", "GET / HTTP/1.1\r\nHost: b.test@a.test\r\n\r\n"],
  ["a host that is a wildcard", "GET / HTTP/1.1\r\nHost: *.test\r\n\r\n"],
  ["a host with blanks", "GET / HTTP/1.1\r\nHost: a.test b.test\r\n\r\n"],
  ["a target with another user", `GET http://u@a.test/ HTTP/1.1\r\n${H}\r\n`],
  ["a target of another scheme", `GET ftp://a.test/ HTTP/1.1\r\n${H}\r\n`],
  ["a target without a slash", `GET x HTTP/1.1\r\n${H}\r\n`],
  ["a target that is a star", `OPTIONS * HTTP/1.1\r\n${H}\r\n`],
  ["a target with a fragment", `GET /#x HTTP/1.1\r\n${H}\r\n`],
  ["a target with a blank", `GET /a b HTTP/1.1\r\n${H}\r\n`],
  ["a target with a tab", `GET\t/ HTTP/1.1\r\n${H}\r\n`],
  ["two blanks", `GET  / HTTP/1.1\r\n${H}\r\n`],
  ["a blank at the end of the line", `GET / HTTP/1.1 \r\n${H}\r\n`],
  ["a method that is none", `G@T / HTTP/1.1\r\n${H}\r\n`],
  ["no version", `GET /\r\n${H}\r\n`],
  ["another version", `GET / HTTP/1.2\r\n${H}\r\n`, 505],
  ["HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505],
  ["lower case", `GET / http/1.1\r\n${H}\r\n`],
  ["a tunnel", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n", 405],
  ["another expectation", `${POST}Content-Length: 1\r\nExpect: 200-ok\r\n\r\n`, 417],
  ["two empty lines before it", `\r\n\r\n${LAST}`],
  ["TLS", "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"],
  ["zero bytes", "\0\0\0\0"],
];

for (const [what, request, status = 400] of REFUSED) {
  Deno.test(`hostile: ${what}`, async () => {
    await using there = world(answering(OK));
    const answer = await there.ask(request + SECRET);
    assert.equal(statusOf(answer), status, answer);
    assert.match(answer, /\r\nConnection: close\r\n[^]*\r\n\r\nsvc: /);
    assert.equal(answer.match(/HTTP\/1\.1 \d/g)!.length, 1);
    // Nobody was asked anything.
    assert.equal(there.dials(), 0);
  });
}

const BAD_CHUNKS = [
  "4\r\nabcdX\r\n0\r\n\r\n",
  "4\nabcd\r\n0\r\n\r\n",
  "4\r\nabcd\n0\r\n\r\n",
  "-1\r\n\r\n0\r\n\r\n",
  "0x4\r\nabcd\r\n0\r\n\r\n",
  " 4\r\nabcd\r\n0\r\n\r\n",
  "4 \r\nabcd\r\n0\r\n\r\n",
  "4_0\r\nabcd\r\n0\r\n\r\n",
  "\r\nabcd\r\n0\r\n\r\n",
  ";x\r\n\r\n0\r\n\r\n",
  "fffffffffffffffff\r\nabcd",
  "4;a\nb\r\nabcd\r\n0\r\n\r\n",
  `4;${"x".repeat(1000)}\r\nabcd\r\n0\r\n\r\n`,
  "0\r\nX: y\n\r\n",
  `0\r\n${"X: y\r\n".repeat(5000)}\r\n`,
];

Deno.test("hostile: malformed chunks end the request, and nothing behind them is one", async () => {
  for (const chunks of BAD_CHUNKS) {
    const asked: string[] = [];
    await using there = world(async (talker) => {
      asked.push((await talker.head())!);
      // An answer would be one to half a request: it comes when the whole of it has.
      await talker.until("0\r\n\r\n");
      await talker.send(OK);
    });
    const answer = await there.ask(`${POST}${CHUNKED}\r\n${chunks}${SECRET}`);
    assert.equal(statusOf(answer), 400, `${JSON.stringify(chunks)}: ${answer}`);
    assert.equal(answer.match(/HTTP\/1\.1 \d/g)!.length, 1);
    assert(!asked.join("").includes("smuggled"));
  }
});

Deno.test("hostile: what a body holds is never a request", async () => {
  const asked: string[] = [];
  await using there = world(async (talker) => {
    asked.push((await talker.head())!);
    await talker.send(OK);
  });
  const size = SECRET.length;
  const bodies = [
    `Content-Length: ${size}\r\n\r\n${SECRET}`,
    `${CHUNKED}\r\n${size.toString(16)}\r\n${SECRET}\r\n0\r\nX: ${"y".repeat(40)}\r\n\r\n`,
    `${CHUNKED}\r\n0;${"x".repeat(40)}\r\n\r\n`,
  ];
  for (const body of bodies) {
    const client = there.open();
    await client.send(`${POST}${body}${LAST}`);
    const { text } = await client.rest();
    // The workload may have answered before it had read the body; the connection ends with that then.
    assert(text.match(/HTTP\/1\.1 200/g)!.length <= 2, text);
    await client.end();
  }
  assert(asked.every((head) => !head.includes("smuggled")));
});

Deno.test("hostile: a workload sees the framing that was read, and one host", async () => {
  const asked: string[] = [];
  await using there = world(async (talker) => {
    asked.push((await talker.head())!);
    await talker.until("0\r\n\r\n");
    await talker.send(OK);
  });
  await there.ask(
    `${POST}transfer-ENCODING: \t CHUNKED \t\r\nConnection: close, transfer-encoding, host, ` +
      "content-length\r\nContent_Length: 3\r\nTransfer_Encoding: identity\r\n\r\n1\r\nx\r\n0\r\n\r\n",
  );
  assert.equal(asked[0].match(/^transfer.encoding:/gim)!.length, 1);
  assert.match(asked[0], /\r\nTransfer-Encoding: chunked\r\n/);
  assert(!/content.length/i.test(asked[0]));
  assert.match(asked[0], /^POST \/ HTTP\/1\.1\r\nHost: a\.test\r\n/);
});

Deno.test("hostile: the same request split at every byte is the same request", async () => {
  const heads = new Set<string>();
  await using there = world(async (talker) => {
    heads.add((await talker.head())! + (await talker.until("0\r\n\r\n")));
    await talker.send(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
  });
  const request = Buffer.from(
    `\r\nPOST /x?y HTTP/1.1\r\n${H}X:  z \r\nConnection: close\r\n${CHUNKED}\r\n` +
      "2;a=b\r\nxy\r\n0\r\nT: t\r\n\r\n",
  );
  const whole = await there.ask(request);
  assert.equal(statusOf(whole), 200);
  for (let at = 1; at < request.length; at++) {
    const client = there.open();
    await client.send(request.subarray(0, at));
    await new Promise((resolve) => setImmediate(resolve));
    await client.send(request.subarray(at));
    assert.equal((await client.rest()).text, whole, `split at ${at}`);
    await client.end();
  }
  const client = there.open();
  for (const byte of request) await client.send(Uint8Array.of(byte));
  assert.equal((await client.rest()).text, whole);
  await client.end();
  // Chunks go as they come: their sizes may differ, what they hold may not.
  const bodies = [...heads].map((head) =>
    head.replace(/\r\n[12]\r\n/g, "\r\n").replace(/\r\n/g, "")
  );
  assert.equal(new Set(bodies.map((text) => text.replace("x1y", "xy"))).size, 1, [...heads].join());
});

Deno.test("hostile: an answer split at every byte is the same answer", async () => {
  const answer = Buffer.from(
    "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nabcde!!",
  );
  let at = answer.length;
  await using there = world(async (talker) => {
    await talker.head();
    await talker.send(answer.subarray(0, at));
    await new Promise((resolve) => setImmediate(resolve));
    await talker.send(answer.subarray(at));
  });
  const whole = await there.ask(LAST);
  assert(whole.endsWith("\r\n\r\nabcde"), whole);
  for (at = 1; at < answer.length; at++) assert.equal(await there.ask(LAST), whole, `at ${at}`);
});

Deno.test("hostile: a head without an end is refused at its limit", async () => {
  await using there = world(answering(OK), { limits: { headBytes: 2048 } });
  for (const start of ["GET /", `GET / HTTP/1.1\r\n${H}X: `, `GET / HTTP/1.1\r\n${H}`]) {
    const client = there.open();
    await client.send(start);
    const answer = client.rest();
    for (let n = 0; n < 100; n++) {
      await client.send(start.endsWith("\n") ? "X: y\r\n" : "x".repeat(50));
    }
    for (let n = 0; n < 400; n++) await client.send(start.endsWith("\n") ? "X: y\r\n" : "xxxx");
    assert.equal(statusOf((await answer).text), 431);
    await client.end();
  }
  const fits = `GET / HTTP/1.1\r\n${H}Connection: close\r\nX: `;
  const exact = fits + "y".repeat(2048 - fits.length - 4) + "\r\n\r\n";
  assert.equal(statusOf(await there.ask(exact)), 200);
  assert.equal(statusOf(await there.ask(exact.replace("X: ", "XX: "))), 431);
  assert.equal(there.dials(), 1);
});

Deno.test("hostile: whoever sends no request, or only its beginning, has to go", async () => {
  await using there = world(answering(OK), { limits: { headMs: 30, idleMs: 30 } });
  assert.deepEqual(await there.open().rest(), { text: "", broken: true });
  const slow = there.open();
  await slow.send("GET / HTTP/1.1\r\n");
  const { text } = await slow.rest();
  assert.equal(statusOf(text), 408);
  const idle = there.open();
  await idle.send(`GET / HTTP/1.1\r\n${H}\r\n`);
  const rest = await idle.rest();
  assert.equal(statusOf(rest.text), 200);
  assert.equal(rest.broken, true);
});

Deno.test("hostile: a body that stops coming ends both connections", async () => {
  let told: { text: string; broken: boolean } | undefined;
  const over = Promise.withResolvers<void>();
  await using there = world(async (talker) => {
    await talker.head();
    told = await talker.rest();
    over.resolve();
  }, { limits: { stallMs: 30 } });
  const client = there.open();
  await client.send(`${POST}Content-Length: 10\r\n\r\nabc`);
  assert.equal((await client.rest()).broken, true);
  await over.promise;
  assert.equal(told!.broken, true);
});

Deno.test("hostile: a client that leaves takes its connection to the workload with it", async () => {
  const leavers: ((client: Talker) => unknown)[] = [
    (client) => client.stream.reset(),
    (client) => client.end(),
  ];
  for (const body of ["", "Content-Length: 10\r\n"]) {
    for (const leave of leavers) {
      const asked = Promise.withResolvers<void>();
      const over = Promise.withResolvers<boolean>();
      await using there = world(async (talker) => {
        await talker.head();
        asked.resolve();
        over.resolve((await talker.rest()).broken);
      });
      const client = there.open();
      await client.send(`${POST}${body}\r\n`);
      await asked.promise;
      await leave(client);
      assert.equal(await over.promise, true);
    }
  }
});

Deno.test("hostile: a client that takes nothing of its answer has to go, and is waited for till then", async () => {
  const [near, far] = duplexPair();
  let writes = 0;
  const stuck = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  await using there = world(async (talker) => {
    await talker.head();
    await talker.send("HTTP/1.1 200 OK\r\n\r\n");
    for (let n = 0; n < 100; n++) await talker.send("x".repeat(1000));
    ended.resolve((await talker.rest(), undefined));
  }, { limits: { stallMs: 30 } });
  const served = there.proxy.accept({
    ...far,
    read: () => far.read(),
    write(bytes) {
      writes++;
      return writes > 1 ? stuck.promise : far.write(bytes);
    },
    reset() {
      stuck.reject(new Error("reset"));
      far.reset();
    },
  }, { scheme: "http" });
  await near.write(Buffer.from(LAST));
  await served;
  await ended.promise;
  assert.equal(writes, 2);
});
