/** Workloads that answer rubbish, nothing, or cannot be reached. */
import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { duplexPair } from "../wire/testing.ts";
import { answering, Talker, world } from "./testing.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const H = "Host: a.test\r\n";
const LAST = `GET / HTTP/1.1\r\n${H}Connection: close\r\n\r\n`;

const statusOf = (answer: string) => Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);

const RUBBISH: [what: string, answer: string][] = [
  ["no HTTP", "hello\r\n\r\n"],
  ["another version", "HTTP/2 200\r\n\r\n"],
  ["no status", "HTTP/1.1 OK\r\n\r\n"],
  ["a status that is none", "HTTP/1.1 999 X\r\n\r\n"],
  ["lines of LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n"],
  ["a folded field", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\nContent-Length: 0\r\n\r\n"],
  [
    "a field that breaks out",
    "HTTP/1.1 200 OK\r\nX: y\rSet-Cookie: a\r\nContent-Length: 0\r\n\r\n",
  ],
  ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"],
  [
    "both framings",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  ],
  ["another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"],
  ["chunks of HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
  ["a switch unasked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"],
  ["hints without an end", "HTTP/1.1 103 Hints\r\n\r\n".repeat(100)],
  ["a head without an end", `HTTP/1.1 200 OK\r\nX: ${"y".repeat(70_000)}`],
  ["half a head", "HTTP/1.1 200 OK\r\nX: y\r\n"],
  ["nothing", ""],
  ["TLS", "\x15\x03\x01\0\x02\x02\x46"],
];

for (const [what, answer] of RUBBISH) {
  Deno.test(`hostile: a workload answers with ${what}`, async () => {
    await using there = world(answering(answer));
    const client = there.open();
    await client.send(`GET / HTTP/1.1\r\n${H}\r\n`);
    let text = (await client.message())!;
    // Hints that were right are passed on.
    while (statusOf(text) === 103) text = (await client.message())!;
    assert.equal(statusOf(text), 502, text);
    assert.match(text, /\r\n\r\nsvc: deployment web /);
    assert(!text.includes("Set-Cookie"));
    // The client's connection is none the worse for it.
    await client.send("GET / HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n");
    assert.equal(statusOf((await client.rest()).text), 404);
  });
}

Deno.test("hostile: an answer that breaks off is never taken for a whole one", async () => {
  const broken = [
    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nrubbish\r\n",
  ];
  for (const answer of broken) {
    await using there = world(answering(answer));
    const { text, broken } = await (async () => {
      const client = there.open();
      await client.send(LAST);
      return await client.rest();
    })();
    assert.equal(broken, true, text);
    assert(!text.endsWith("0\r\n\r\n"));
    assert(!text.includes("svc:"));
  }
});

Deno.test("hostile: more than the length says is not passed on", async () => {
  await using there = world(answering(`${OK}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`));
  const client = there.open();
  for (let n = 0; n < 3; n++) {
    await client.send(`GET / HTTP/1.1\r\n${H}\r\n`);
    assert.match((await client.message())!, /^HTTP\/1\.1 200 [^]*\r\n\r\nok$/);
  }
});

Deno.test("hostile: a workload that cannot be reached, and why", async () => {
  const cases: [() => Promise<never>, number, RegExp, number][] = [
    [() => Promise.reject(new SvcError("conflict", "no instance at 10.1.2.3")), 503, /not run/, 1],
    [() => Promise.reject(new SvcError("not_found", "gone")), 503, /not run/, 1],
    [() => Promise.reject(new SvcError("upstream_failed", "10.1.2.3")), 502, /port 80$/, 2],
    [() => Promise.reject(new Error("surprise at 10.1.2.3")), 502, /port 80$/, 1],
    [() => Promise.reject(new SvcError("timeout", "late")), 504, /in time$/, 1],
    [() => new Promise<never>(() => {}), 504, /in time$/, 1],
  ];
  for (const [dial, status, reason, dials] of cases) {
    await using there = world(answering(OK), { dial, limits: { dialMs: 30 } });
    const answer = await there.ask(LAST);
    assert.equal(statusOf(answer), status);
    assert.match(answer.trimEnd(), reason);
    assert(!answer.includes("10.1.2.3"));
    assert.equal(there.dials(), dials);
  }
});

Deno.test("hostile: a connection that comes too late is closed", async () => {
  const late = Promise.withResolvers<Talker["stream"]>();
  const [near, far] = duplexPair();
  await using there = world(answering(OK), { dial: () => late.promise, limits: { dialMs: 30 } });
  assert.equal(statusOf(await there.ask(LAST)), 504);
  late.resolve(near);
  assert.equal((await new Talker(far).rest()).broken, true);
});

Deno.test("hostile: a workload that says nothing is given up", async () => {
  await using there = world(async (talker) => void await talker.rest(), {
    limits: { answerMs: 30 },
  });
  const answer = await there.ask(LAST);
  assert.equal(statusOf(answer), 504);
  assert.match(answer, /did not answer in time/);
});

Deno.test("hostile: what may be asked twice is asked twice where nothing was said, all else once", async () => {
  const workload = async (talker: Talker, connection: number) => {
    await talker.head();
    if (connection > 0) await talker.send(OK);
    await talker.end();
  };
  await using safe = world(workload);
  assert.equal(statusOf(await safe.ask(LAST)), 200);
  assert.equal(safe.dials(), 2);
  for (
    const request of [
      LAST.replace("GET", "DELETE"),
      `POST / HTTP/1.1\r\n${H}Content-Length: 0\r\n\r\n`,
    ]
  ) {
    await using unsafe = world(workload);
    const client = unsafe.open();
    await client.send(request);
    assert.equal(statusOf((await client.message())!), 502);
    assert.equal(unsafe.dials(), 1);
  }
});
