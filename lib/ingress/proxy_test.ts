import assert from "node:assert/strict";
import { answering, ROUTE, world } from "./testing.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const GET = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
const LAST = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";

/** Name → value, names in lower case; repeated ones joined by "|". */
function fieldsOf(head: string): Record<string, string> {
  const fields: Record<string, string> = {};
  for (const line of head.split("\r\n").slice(1).filter(Boolean)) {
    const [, name, value] = /^([^:]+): ?(.*)$/.exec(line)!;
    const key = name.toLowerCase();
    fields[key] = key in fields ? `${fields[key]}|${value}` : value;
  }
  return fields;
}

Deno.test("proxy: a request goes to its deployment, and its answer comes back as it was", async () => {
  let asked: string | undefined;
  await using there = world(async (talker) => {
    asked = await talker.message();
    await talker.send(
      "HTTP/1.1 201 Made It\r\nServer: x\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n" +
        "Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\xff",
    );
  });
  const answer = await there.ask(
    "POST /a/b?c=d&e HTTP/1.1\r\nHost: A.test:8080\r\nUser-Agent: t\r\nAccept: */*\r\n" +
      "Content-Length: 4\r\nConnection: close\r\n\r\nbody",
  );
  assert.equal(
    answer,
    "HTTP/1.1 201 Made It\r\nServer: x\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\n" +
      "Content-Encoding: gzip\r\nContent-Length: 3\r\nConnection: close\r\n\r\n\x1f\x8b\xff",
  );
  assert.equal(
    asked,
    "POST /a/b?c=d&e HTTP/1.1\r\nHost: A.test:8080\r\nUser-Agent: t\r\nAccept: */*\r\n" +
      "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: A.test:8080\r\n" +
      "Content-Length: 4\r\nConnection: close\r\n\r\nbody",
  );
});

Deno.test("proxy: what belongs to a connection stays there; what a client claims to be is replaced", async () => {
  const asked: string[] = [];
  await using there = world(async (talker) => {
    asked.push((await talker.head())!);
    await talker.send(
      "HTTP/1.1 200 OK\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n" +
        "Proxy-Connection: x\r\nTrailer: y\r\nX-End: 1\r\nContent-Length: 0\r\n\r\n",
    );
  });
  const claims = "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\n" +
    "X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\nX-Forwarded-Port: 1\r\n" +
    "X_Forwarded_For: 9.9.9.9\r\nX-Real-IP: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nProxy: evil\r\n" +
    "Content_Length: 9\r\n";
  const request = `GET / HTTP/1.1\r\nHost: a.test\r\n${claims}Connection: close, X-Own\r\n` +
    "X-Own: 1\r\nKeep-Alive: 5\r\nTE: trailers\r\nProxy-Authorization: s\r\nUpgrade: h2c\r\n" +
    "HTTP2-Settings: x\r\nX-Kept: yes\r\n\r\n";
  const answer = fieldsOf(await there.ask(request, { scheme: "https" }));
  assert.deepEqual(answer, { "x-end": "1", "content-length": "0", connection: "close" });
  assert.deepEqual(fieldsOf(asked[0]), {
    host: "a.test",
    "x-kept": "yes",
    "x-forwarded-for": "192.0.2.7",
    "x-forwarded-proto": "https",
    "x-forwarded-host": "a.test",
    connection: "close",
  });
  await there.ask(request, { trusted: true, remote: "127.0.0.1" });
  const told = fieldsOf(asked[1]);
  assert.equal(told["x-forwarded-for"], "1.2.3.4, 5.6.7.8, 127.0.0.1");
  assert.equal(told["x-forwarded-proto"], "https");
  assert.equal(told["x-forwarded-host"], "evil.test");
  assert(!("x-real-ip" in told) && !("forwarded" in told) && !("x_forwarded_for" in told));
  await there.ask(request, { remote: undefined });
  assert(!("x-forwarded-for" in fieldsOf(asked[2])));
});

Deno.test("proxy: many requests on one connection, also ahead of their answers", async () => {
  let count = 0;
  await using there = world(async (talker) => {
    const body = `answer ${count++}`;
    await talker.message();
    await talker.send(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  });
  const client = there.open();
  for (let n = 0; n < 20; n++) {
    await client.send(GET);
    assert((await client.message())!.endsWith(`answer ${n}`));
  }
  const post =
    "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
  await client.send(`${GET}\r\n${post}${post}${LAST}`);
  const { text, broken } = await client.rest();
  assert(!broken);
  assert.deepEqual(text.match(/answer \d+/g), ["answer 20", "answer 21", "answer 22", "answer 23"]);
  assert.equal(there.dials(), 24);
});

Deno.test("proxy: bodies by length, in chunks and to the end, for clients of both versions", async () => {
  const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n" +
    "3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nX: trailer\r\n\r\n";
  const answers = [chunked, "HTTP/1.1 200 OK\r\n\r\nabcde", "HTTP/1.0 200 OK\r\nX: y\r\n\r\nabcde"];
  for (const answer of answers) {
    await using there = world(answering(answer));
    const modern = await there.ask(LAST);
    assert.match(modern, /\r\nTransfer-Encoding: chunked\r\n/);
    const body = modern.slice(modern.indexOf("\r\n\r\n") + 4);
    assert(body.endsWith("\r\n0\r\n\r\n"), JSON.stringify(modern));
    assert.equal(body.replace(/[0-9]+\r\n([a-e]*)\r\n/g, "$1"), "abcde");
    const old = await there.ask("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    assert(old.endsWith("\r\n\r\nabcde"), old);
    assert(!/transfer-encoding/i.test(old) && /\r\nConnection: close\r\n/.test(old));
  }
});

Deno.test("proxy: answers without a body have none", async () => {
  const cases: [string, string, RegExp][] = [
    ["HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", /Content-Length: 5/],
    ["HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", /^HTTP\/1\.1 200/],
    ["GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", /^HTTP\/1\.1 204/],
    ["GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", /Content-Length: 9/],
  ];
  for (const [method, answer, expected] of cases) {
    await using there = world(answering(answer));
    const client = there.open();
    await client.send(`${method} / HTTP/1.1\r\nHost: a.test\r\n\r\n`);
    const first = (await client.head())!;
    assert.match(first, expected);
    assert(!/transfer-encoding/i.test(first));
    if (first.includes("204")) assert(!/content-length/i.test(first));
    await client.send(LAST.replace("GET", method));
    assert.match((await client.rest()).text, expected);
  }
});

Deno.test("proxy: the body waits for 100 Continue where the workload decides about it", async () => {
  const request = "PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n" +
    "Expect: 100-continue\r\nConnection: close\r\n\r\n";
  await using takes = world(async (talker) => {
    assert.match((await talker.head())!, /\r\nExpect: 100-continue\r\n/);
    await talker.send("HTTP/1.1 100 Continue\r\n\r\n");
    assert.equal(await talker.exactly(4), "body");
    await talker.send(OK);
  });
  const client = takes.open();
  await client.send(request);
  assert.equal(await client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
  await client.send("body");
  assert.match((await client.rest()).text, /^HTTP\/1\.1 200 OK[^]*ok$/);

  await using refuses = world(async (talker) => {
    await talker.head();
    await talker.send("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
    await talker.end();
  });
  assert.match(await refuses.ask(request), /^HTTP\/1\.1 413 [^]*Connection: close/);

  // Hints are for whoever understands them; "100" only for whoever asked.
  await using hints = world(async (talker) => {
    await talker.head();
    await talker.send(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
    );
  });
  assert.match(
    await hints.ask(LAST),
    /^HTTP\/1\.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP\/1\.1 200/,
  );
  assert.match(await hints.ask("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n"), /^HTTP\/1\.1 200/);
});

Deno.test("proxy: an early answer reaches a client that is still sending", async () => {
  await using there = world(async (talker) => {
    await talker.head();
    await talker.send("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno");
    await talker.end();
  });
  const client = there.open();
  await client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n");
  const answer = client.rest();
  for (let sent = 0; sent < 1_000_000; sent += 10_000) {
    await client.send(new Uint8Array(10_000)).catch(() => {});
  }
  assert.match((await answer).text, /^HTTP\/1\.1 403 No[^]*\r\nConnection: close\r\n\r\nno$/);
});

Deno.test("proxy: an answer is passed on while it is made", async () => {
  await using there = world(async (talker) => {
    await talker.head();
    await talker.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (let n = 0; n < 3; n++) {
      await talker.until("!").catch(() => {});
      await talker.send(`6\r\nevent${n}\r\n`);
    }
    await talker.send("0\r\n\r\n");
  });
  const client = there.open();
  await client.send(
    "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
  );
  // The head comes before the workload has got any of the body.
  assert.match((await client.head())!, /^HTTP\/1\.1 200 OK/);
  for (let n = 0; n < 3; n++) {
    await client.send("1\r\n!\r\n");
    assert.equal(await client.until(`event${n}\r\n`), `6\r\nevent${n}\r\n`);
  }
  await client.send("0\r\n\r\n");
  assert.equal((await client.rest()).text, "0\r\n\r\n");
});

Deno.test("proxy: an upgraded connection is bytes both ways, each direction ends by itself", async () => {
  await using there = world(async (talker) => {
    const head = (await talker.head())!;
    assert.match(head, /\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n/);
    assert.match(head, /\r\nSec-WebSocket-Key: abc\r\n/);
    await talker.send(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nfirst",
    );
    assert.equal(await talker.until("\r\n\r\n"), "GET /not-a-request HTTP/1.1\r\n\r\n");
    assert.equal(await talker.until("x"), undefined);
    await talker.send("last");
    await talker.end();
  });
  const client = there.open();
  await client.send(
    "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" +
      "Sec-WebSocket-Key: abc\r\n\r\nGET /not-a-request HTTP/1.1\r\n\r\n",
  );
  const head = (await client.head())!;
  assert.match(head, /^HTTP\/1\.1 101 [^]*Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n$/);
  assert.equal(await client.exactly(5), "first");
  await client.end();
  assert.deepEqual(await client.rest(), { text: "last", broken: false });
  assert.equal(there.dials(), 1);
});

Deno.test("proxy: an upgrade that is refused ends the connection; HTTP/2 is not asked for", async () => {
  const heads: string[] = [];
  await using there = world(async (talker) => {
    heads.push((await talker.head())!);
    await talker.send(OK);
  });
  const ask = (protocol: string) =>
    there.ask(
      `GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade, close\r\nUpgrade: ${protocol}\r\n\r\n`,
    );
  assert.match(await ask("websocket"), /Connection: close[^]*ok$/);
  for (const protocol of ["h2c", "H2C", "h2c, websocket", "a b"]) await ask(protocol);
  assert.deepEqual(heads.map((head) => /\r\nUpgrade: /.test(head)), [
    true,
    false,
    false,
    false,
    false,
  ]);
});

Deno.test("proxy: where nobody answers the client is told, and may go on", async () => {
  await using there = world(answering(OK), { routes: [{ ...ROUTE, path: "/api" }] });
  const client = there.open();
  await client.send("GET /x HTTP/1.1\r\nHost: b.test\r\n\r\n");
  const text = (await client.message())!;
  assert.match(
    text,
    /^HTTP\/1\.1 404 Not Found\r\n[^]*\r\n\r\nsvc: no deployment answers at b\.test/,
  );
  assert.equal(fieldsOf(text.split("\r\n\r\n")[0])["content-type"], "text/plain; charset=utf-8");
  await client.send("HEAD /apix HTTP/1.1\r\nHost: a.test\r\n\r\n");
  assert.match((await client.head())!, /^HTTP\/1\.1 404/);
  await client.send("GET /api?x HTTP/1.1\r\nHost: A.TEST.:80\r\n\r\n");
  assert.match((await client.message())!, /ok$/);
  await client.send(
    "GET http://a.test/api/y HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n",
  );
  assert.match((await client.rest()).text, /ok$/);
  assert.match(await there.ask("GET / HTTP/1.0\r\n\r\n"), /^HTTP\/1\.1 404/);
});

Deno.test("proxy: a target with a scheme is asked for by its own host and path", async () => {
  const heads: string[] = [];
  await using there = world(async (talker) => {
    heads.push((await talker.head())!);
    await talker.send(OK);
  });
  await there.ask("GET HTTP://a.test?q HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n");
  assert.match(heads[0], /^GET \/\?q HTTP\/1\.1\r\nHost: a\.test\r\n/);
  assert.match(heads[0], /\r\nX-Forwarded-Host: a\.test\r\n/);
});

Deno.test("proxy: draining ends idle connections at once and lets requests end", async () => {
  const release = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  await using there = world(async (talker) => {
    await talker.head();
    asked.resolve();
    await release.promise;
    await talker.send(OK);
  });
  const idle = there.open();
  const busy = there.open();
  await busy.send(GET);
  await asked.promise;
  assert.deepEqual([there.proxy.open, there.proxy.inFlight], [2, 1]);
  const drained = there.proxy.drain();
  assert.equal((await idle.rest()).broken, true);
  assert.equal((await there.open().rest()).broken, true);
  release.resolve();
  assert.match((await busy.rest()).text, /Connection: close[^]*ok$/);
  await busy.end();
  await drained;
  assert.equal(there.proxy.open, 0);
});

Deno.test("proxy: no more is read of one side than the other one takes", async () => {
  let reads = 0;
  let writes = 0;
  const stuck = Promise.withResolvers<void>();
  await using there = world(() => Promise.resolve(), {
    dial: () =>
      Promise.resolve({
        read() {
          const head = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
          return Promise.resolve(
            reads++ === 0 ? new TextEncoder().encode(head) : new Uint8Array(1000),
          );
        },
        write() {
          writes++;
          return writes === 1 ? Promise.resolve() : stuck.promise;
        },
        closeWrite: () => Promise.resolve(),
        reset: () => stuck.reject(new Error("reset")),
      }),
  });
  const turns = async () => {
    for (let n = 0; n < 50; n++) await new Promise((resolve) => setImmediate(resolve));
  };
  // The workload takes the head and nothing of the body.
  let uploaded = 0;
  const body = {
    read: () => {
      uploaded++;
      const head = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n";
      return Promise.resolve(
        uploaded === 1 ? new TextEncoder().encode(head) : new Uint8Array(1000),
      );
    },
    /** The client takes nothing of its answer. */
    write: () => stuck.promise,
    closeWrite: () => Promise.resolve(),
    reset: () => {},
  };
  const served = there.proxy.accept(body, { scheme: "http" });
  await turns();
  assert(uploaded <= 3 && reads <= 3, `${uploaded} and ${reads} reads`);
  stuck.reject(new Error("gone"));
  await served;
});
