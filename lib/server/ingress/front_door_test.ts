/** The front door on real connections: those that are cut, stop, come in crowds, or send what nobody wants. */
import assert from "node:assert/strict";
import { createLogger, silent } from "../../base/log.ts";
import type { Logger } from "../../base/log.ts";
import { createIngressProxy } from "../../ingress/proxy.ts";
import type { IngressProxyOptions } from "../../ingress/proxy.ts";
import { connDuplex } from "../../wire/duplex.ts";
import { openFrontDoor } from "./front_door.ts";

const ROUTE = {
  host: "a.test",
  path: "/",
  pathType: "Prefix" as const,
  deployment: "web",
  port: 80,
  tls: false,
};
const H = "Host: a.test\r\n";

interface TestDoor extends AsyncDisposable {
  connect(): Promise<Deno.TcpConn>;
}

/** A door to one workload, whose every connection `serve` has. */
async function doorTo(
  serve: (conn: Deno.Conn) => Promise<void>,
  more: { maxConnections?: number; log?: Logger; limits?: IngressProxyOptions["limits"] } = {},
): Promise<TestDoor> {
  const { maxConnections, log = silent, limits } = more;
  const workload = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = workload.addr;
  const serving = (async () => {
    const all: Promise<void>[] = [];
    for await (const conn of workload) {
      all.push(
        serve(conn).catch(() => {/* cut off */}).finally(() => {
          try {
            conn.close();
          } catch {
            // closed already
          }
        }),
      );
    }
    await Promise.all(all);
  })();
  const proxy = createIngressProxy({
    match: () => ROUTE,
    dial: async () => connDuplex(await Deno.connect({ hostname: "127.0.0.1", port })),
    log,
    limits,
  });
  const door = (await openFrontDoor({
    address: { hostname: "127.0.0.1", port: 0 },
    proxy,
    log,
    maxConnections,
  }))!;
  return {
    connect: () => Deno.connect({ hostname: "127.0.0.1", port: door.address.port }),
    async [Symbol.asyncDispose]() {
      door[Symbol.dispose]();
      proxy[Symbol.dispose]();
      await proxy.drain();
      workload.close();
      await serving;
    },
  };
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

async function send(conn: Deno.Conn, data: string | Uint8Array): Promise<void> {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

/** Everything until `end` has come, or nothing more comes. */
async function receive(conn: Deno.Conn, end = "\0"): Promise<string> {
  const buffer = new Uint8Array(64 * 1024);
  let all = "";
  while (!all.includes(end)) {
    const size = await conn.read(buffer).catch(() => null);
    if (size === null) break;
    all += text(buffer.subarray(0, size));
  }
  return all;
}

const hello = async (conn: Deno.Conn) => {
  await receive(conn, "\r\n\r\n");
  await send(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
};

Deno.test("front door: clients that are cut anywhere leave nothing open", async () => {
  await using door = await doorTo(hello);
  const request = `POST / HTTP/1.1\r\n${H}Content-Length: 3\r\n\r\nabc`;
  const cut = async (_: unknown, n: number) => {
    using conn = await door.connect();
    await send(conn, request.slice(0, n % (request.length + 1)));
    if (n % 2 === 0) return;
    await conn.closeWrite();
    await receive(conn);
  };
  await Promise.all(Array.from({ length: 2 * request.length }, cut));
  using conn = await door.connect();
  await send(conn, `GET / HTTP/1.1\r\n${H}\r\n`);
  assert.match(await receive(conn, "hello"), /hello$/);
});

Deno.test("front door: an answer to a body that the workload does not read reaches its client", async () => {
  await using door = await doorTo(async (conn) => {
    await receive(conn, "\r\n\r\n");
    await send(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nmuch");
  });
  for (let n = 0; n < 5; n++) {
    using conn = await door.connect();
    const answer = receive(conn, "much");
    const sending = (async () => {
      await send(conn, `PUT / HTTP/1.1\r\n${H}Content-Length: 100000000\r\n\r\n`);
      for (let sent = 0; sent < 100; sent++) await send(conn, new Uint8Array(1_000_000));
    })().catch(() => {/* nobody takes it any more */});
    assert.match(await answer, /^HTTP\/1\.1 413 [^]*Connection: close\r\n\r\nmuch$/);
    await sending;
  }
});

Deno.test("front door: connections beyond the limit are closed, and told of once", async () => {
  const lines: string[] = [];
  const log = createLogger({ level: "warn", format: "json", write: (line) => lines.push(line) });
  await using door = await doorTo(hello, { maxConnections: 2, log });
  const ask = async (conn: Deno.Conn) => {
    await send(conn, `GET / HTTP/1.1\r\n${H}\r\n`);
    return await receive(conn, "hello");
  };
  {
    using one = await door.connect();
    using two = await door.connect();
    assert.match(await ask(one), /hello$/);
    assert.match(await ask(two), /hello$/);
    for (let n = 0; n < 3; n++) {
      using three = await door.connect();
      assert.equal(await receive(three), "");
    }
    assert.match(await ask(one), /hello$/);
  }
  assert.equal(lines.length, 1, lines.join("\n"));
  assert.match(lines[0], /too many are open/);
  // Room comes back with those that go.
  for (;;) {
    using next = await door.connect();
    if ((await ask(next).catch(() => "")).endsWith("hello")) break;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
});

Deno.test("front door: who is there is told, and believed on this machine alone", async () => {
  let head = "";
  await using door = await doorTo(async (conn) => {
    head = await receive(conn, "\r\n\r\n");
    await send(conn, "HTTP/1.1 204 No Content\r\n\r\n");
  });
  using conn = await door.connect();
  await send(
    conn,
    `GET / HTTP/1.1\r\n${H}X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n` +
      "Connection: close\r\n\r\n",
  );
  assert.match(await receive(conn), /^HTTP\/1\.1 204 /);
  assert.match(head, /\r\nX-Forwarded-For: 192\.0\.2\.1, 127\.0\.0\.1\r\n/);
  assert.match(head, /\r\nX-Forwarded-Proto: https\r\n/);
});
