/** Clients as the wire has them: split, pipelined, slow, stuck, gone. */
import assert from "node:assert/strict";
import { type Handler, listen, type Listener } from "../listener.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

async function withListener(
  handler: Handler,
  work: (listener: Listener) => Promise<void>,
  limits = {},
): Promise<void> {
  const listener = await listen({ hostname: "127.0.0.1", port: 0, limits }, handler);
  try {
    await work(listener);
  } finally {
    await listener.close();
  }
}

class Client implements Disposable {
  #conn: Deno.TcpConn;

  private constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
  }

  static async connect({ address: { port } }: Listener): Promise<Client> {
    return new Client(await Deno.connect({ hostname: "127.0.0.1", port }));
  }

  async send(text: string): Promise<void> {
    await this.#conn.write(encoder.encode(text));
  }

  /** What arrives until `end` matches; throws with it when the server ends the connection first. */
  async until(end: RegExp): Promise<string> {
    let text = "";
    const buffer = new Uint8Array(65536);
    while (!end.test(text)) {
      const count = await this.#conn.read(buffer).catch(() => null);
      if (count === null) throw new Error(`closed after ${JSON.stringify(text)}`);
      text += decoder.decode(buffer.subarray(0, count));
    }
    return text;
  }

  /** Everything until the server ends the connection. */
  async rest(): Promise<string> {
    let text = "";
    const buffer = new Uint8Array(65536);
    for (;;) {
      const count = await this.#conn.read(buffer).catch(() => null);
      if (count === null) return text;
      text += decoder.decode(buffer.subarray(0, count));
    }
  }

  [Symbol.dispose](): void {
    this.#conn.close();
  }
}

const echo: Handler = async (request) =>
  new Response(`[${request.method} ${new URL(request.url).pathname} ${await request.text()}]`);

const get = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nHost: h\r\n${more}\r\n`;

Deno.test("clients: a head in pieces, then others on the same connection", async () => {
  await withListener(echo, async (listener) => {
    using client = await Client.connect(listener);
    for (const piece of ["G", "ET /a HTTP/1.1\r", "\nHost: h\r\n", "\r\n"]) {
      await client.send(piece);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    assert.match(await client.until(/\]/), /\[GET \/a \]/);
    await client.send("POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe");
    await client.send("llo");
    assert.match(await client.until(/\]/), /\[POST \/b hello\]/);
    await client.send(
      "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    );
    await client.send("1\r\nd\r\n0\r\n\r\n");
    assert.match(await client.until(/\]/), /\[PUT \/c abcd\]/);
    await client.send(get("/d"));
    assert.match(await client.until(/\]/), /\[GET \/d \]/);
  });
});

Deno.test("clients: pipelined requests are answered in their order", async () => {
  await withListener(echo, async (listener) => {
    using client = await Client.connect(listener);
    await client.send(get("/1") + get("/2"));
    assert.match(await client.until(/\/2 \]/), /\/1 \][^]*\/2 \]/);
    using other = await Client.connect(listener);
    await other.send(get("/1"));
    await other.send(get("/2") + "POST /3 HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx");
    assert.match(await other.until(/\/3 x\]/), /\/1 \][^]*\/2 \][^]*\/3 x\]/);
  });
});

Deno.test("clients: what frames a body twice, or names no host, is refused and not answered twice", async () => {
  await withListener(echo, async (listener) => {
    for (
      const text of [
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nbad header\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        `GET / HTTP/1.1\r\nHost: h\r\nbig: ${"x".repeat(100_000)}\r\n\r\n`,
      ]
    ) {
      using client = await Client.connect(listener);
      await client.send(text).catch(() => {/* refused before its end */});
      const answer = await Promise.race([
        client.rest(),
        new Promise<string>((resolve) => setTimeout(resolve, 500, "open")),
      ]);
      assert.doesNotMatch(answer, /HTTP\/1\.1 200/, JSON.stringify(text.slice(0, 80)));
    }
  });
});

Deno.test("clients: one that speaks TLS to a plain port is told at once that it cannot", async () => {
  await withListener(echo, async (listener) => {
    using client = await Client.connect(listener);
    await client.send("\x16\x03\x01\x01\x10\x01\x00\x01\x0c\x03\x03");
    assert.match(await client.rest(), /^HTTP\/1\.1 400 /);
  });
});

Deno.test("clients: 100 Continue is said when the body is wanted, and not when it is refused", async () => {
  const handler: Handler = async (request) =>
    request.url.endsWith("/no") ? new Response("[no]", { status: 401 }) : await echo(
      request,
      { remote: "", blob: () => new Response(), upgrade: () => assert.fail() },
      () => {},
    );
  await withListener(handler, async (listener) => {
    const head = (path: string) =>
      `PUT ${path} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`;
    using client = await Client.connect(listener);
    await client.send(head("/yes"));
    await client.until(/^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    await client.send("ok");
    assert.match(await client.until(/\]/), /\[PUT \/yes ok\]/);
    using other = await Client.connect(listener);
    await other.send(head("/no"));
    assert.match(await other.rest(), /^HTTP\/1\.1 401 .*connection: close[^]*\[no\]/is);
  });
});

Deno.test("clients: those that stop in the middle are cut, those that go on slowly are not", async () => {
  let broken = 0;
  const handler: Handler = async (request, connection, ended) => {
    try {
      return await echo(request, connection, ended);
    } catch (error) {
      broken++;
      throw error;
    }
  };
  await withListener(handler, async (listener) => {
    using silent = await Client.connect(listener);
    using head = await Client.connect(listener);
    await head.send("GET / HTT");
    using body = await Client.connect(listener);
    await body.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nab");
    using idle = await Client.connect(listener);
    await idle.send(get("/idle"));
    await idle.until(/\]/);
    using slow = await Client.connect(listener);
    await slow.send("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 65536\r\n\r\n");
    // Together longer than what each may take.
    for (let n = 0; n < 8; n++) {
      await new Promise((resolve) => setTimeout(resolve, 300));
      await slow.send("x".repeat(8192));
    }
    assert.match(await slow.until(/\]/), /\[POST \/s x{65536}\]/);
    for (const client of [silent, head, body, idle]) assert.equal(await client.rest(), "");
    assert.equal(broken, 1);
  }, { headMs: 2000, idleMs: 2000, stallMs: 2000 });
});

Deno.test("clients: a reader that takes nothing is cut and its file let go of", async () => {
  const path = await Deno.makeTempFile();
  const size = 64 * 1024 * 1024;
  const cut = async () => {
    const done = Promise.withResolvers<number>();
    await withListener((_request, connection, ended) => {
      ended(({ sent }) => done.resolve(sent));
      const body = { size, stream: () => assert.fail(), file: { path, offset: 0 } };
      return Promise.resolve(connection.blob(body, { status: 200, headers: new Headers() }));
    }, async (listener) => {
      using client = await Client.connect(listener);
      await client.send(get("/"));
      assert((await done.promise) < size);
    }, { stallMs: 200 });
  };
  try {
    await Deno.truncate(path, size);
    const files = () => [...Deno.readDirSync("/proc/self/fd")].length;
    // The first one opens what waits for sockets, and that stays; so does what the runtime may open.
    await cut();
    const most = files() + 3;
    for (let n = 0; n < 5; n++) await cut();
    for (let n = 0; files() > most && n < 1500; n++) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert(files() <= most);
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("clients: a large file arrives whole, from any offset, one after the other", async () => {
  const path = await Deno.makeTempFile();
  try {
    const bytes = new Uint8Array(9 * 1024 * 1024 + 7);
    for (let n = 0; n < bytes.length; n++) bytes[n] = (n * 31 + (n >> 12)) & 0xff;
    await Deno.writeFile(path, bytes);
    await withListener((request, connection) => {
      const offset = Number(new URL(request.url).searchParams.get("from"));
      const size = bytes.length - offset;
      const body = { size, stream: () => assert.fail(), file: { path, offset } };
      return Promise.resolve(connection.blob(body, { status: 200, headers: new Headers() }));
    }, async ({ address: { hostname, port } }) => {
      // One connection, kept alive.
      for (const from of [0, 1, 4096 * 3 + 5, 0]) {
        const answer = await fetch(`http://${hostname}:${port}/?from=${from}`);
        const got = new Uint8Array(await answer.arrayBuffer());
        assert.equal(got.length, bytes.length - from);
        assert.deepEqual(got, bytes.subarray(from));
      }
    });
  } finally {
    await Deno.remove(path);
  }
});

Deno.test("clients: a stream that rests is not cut, and ends when its client goes", async () => {
  const cancelled = Promise.withResolvers<void>();
  let cut = false;
  const handler: Handler = () =>
    Promise.resolve(
      new Response(
        new ReadableStream({
          start: (controller) => controller.enqueue(encoder.encode("first\n")),
          cancel: () => {
            cut = true;
            cancelled.resolve();
          },
        }),
      ),
    );
  await withListener(handler, async (listener) => {
    const client = await Client.connect(listener);
    await client.send(get("/"));
    assert.match(await client.until(/first/), /transfer-encoding: chunked/i);
    // Longer than every limit, and than the pause between two looks at them.
    await new Promise((resolve) => setTimeout(resolve, 2200));
    assert.equal(cut, false);
    client[Symbol.dispose]();
    await cancelled.promise;
  }, { headMs: 1500, idleMs: 1500, stallMs: 1500 });
});

Deno.test("clients: more connections than there may be are closed; others are served once some went", async () => {
  const listener = await listen(
    { hostname: "127.0.0.1", port: 0, maxConnections: 2, onRefused: (open) => told.push(open) },
    () => Promise.resolve(new Response("here")),
  );
  const told: number[] = [];
  const get = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
  try {
    for (let round = 0; round < 3; round++) {
      using one = await Client.connect(listener);
      using two = await Client.connect(listener);
      // Those of the round before may not have been seen to go yet.
      const served = async (client: Client) => {
        await client.send(get).catch(() => {});
        return await client.until(/here/).then(() => true, () => false);
      };
      if (!await served(one) || !await served(two)) {
        round--;
        continue;
      }
      for (let n = 0; n < 5; n++) {
        using more = await Client.connect(listener);
        assert.equal(await more.rest(), "");
      }
      for (const client of [one, two]) assert.ok(await served(client));
    }
    assert.deepEqual(told, [2]);
  } finally {
    await listener.close();
  }
});

Deno.test("clients: shutdown ends connections that rest", async () => {
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, echo);
  using idle = await Client.connect(listener);
  await idle.send(get("/"));
  await idle.until(/\]/);
  using fresh = await Client.connect(listener);
  await listener.shutdown();
  assert.equal(await idle.rest(), "");
  assert.equal(await fresh.rest(), "");
});
