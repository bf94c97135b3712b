import assert from "node:assert/strict";
import { pattern } from "../wire/testing.ts";
import type { Link } from "../wire/yamux/session.ts";
import { openPlainLink } from "./plain_link.ts";

interface Open extends AsyncDisposable {
  link: Link;
  /** Bytes that came, once there are so many. */
  came(size: number): Promise<Uint8Array>;
  closed: Promise<void>;
}

async function openAt(port: number, headers = {}, signal?: AbortSignal): Promise<Open> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let news = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<void>();
  const link = await openPlainLink({
    url: new URL(`http://127.0.0.1:${port}/a/b?c=d`),
    headers,
    onMessage: (data) => {
      parts.push(data);
      news.resolve();
    },
    onClose: closed.resolve,
    signal,
  });
  return {
    link,
    async came(size) {
      while (parts.reduce((sum, { length }) => sum + length, 0) < size) {
        await news.promise;
        news = Promise.withResolvers();
      }
      return new Uint8Array(await new Blob(parts.splice(0)).arrayBuffer());
    },
    closed: closed.promise,
    async [Symbol.asyncDispose]() {
      link.close();
      await closed.promise;
    },
  };
}

/** A server of WebSockets; `act` is given each of them. */
function serve(act: (socket: WebSocket, asked: string) => void) {
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, (request) => {
    const authorization = request.headers.get("authorization");
    if (authorization === "Bearer wrong") return new Response("no", { status: 401 });
    const { pathname, search } = new URL(request.url);
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.binaryType = "arraybuffer";
    act(socket, `${pathname}${search} ${authorization}`);
    return response;
  });
  return {
    port: server.addr.port,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

Deno.test("plain link: messages of all sizes go both ways", async () => {
  await using server = serve((socket) => {
    socket.onmessage = ({ data }) => socket.send(data);
  });
  await using open = await openAt(server.port);
  for (const size of [1, 2, 3, 4, 5, 125, 126, 127, 65_535, 65_536, 65_537, 3_000_001]) {
    const bytes = pattern(size);
    await open.link.send(bytes);
    assert.deepEqual(await open.came(size), bytes, String(size));
  }
  // Many that wait together.
  const sent = Array.from({ length: 2000 }, (_, size) => pattern(size % 700));
  await Promise.all(sent.map((bytes) => open.link.send(bytes)));
  const whole = new Uint8Array(await new Blob(sent).arrayBuffer());
  assert.deepEqual(await open.came(whole.length), whole);
});

Deno.test("plain link: request, refusal, and the end from either side", async () => {
  let seen = "";
  const ended = Promise.withResolvers<CloseEvent>();
  const sockets: WebSocket[] = [];
  await using server = serve((socket, asked) => {
    seen = asked;
    sockets.push(socket);
    socket.onclose = ended.resolve;
  });
  const first = await openAt(server.port, { authorization: "Bearer good" });
  assert.equal(seen, "/a/b?c=d Bearer good");
  first.link.close();
  first.link.close();
  await first.closed;
  assert.equal((await ended.promise).code, 1000);
  await assert.rejects(first.link.send(new Uint8Array(1)), /closed/);
  await using second = await openAt(server.port);
  sockets[1].onopen = () => sockets[1].close();
  if (sockets[1].readyState === WebSocket.OPEN) sockets[1].close();
  await second.closed;
  await assert.rejects(openAt(server.port, { authorization: "Bearer wrong" }), /refused/);
  await assert.rejects(openAt(server.port, { authorization: "a\r\nb: c" }), /no header/);
  await assert.rejects(
    openAt(server.port, {}, AbortSignal.abort(new Error("given up"))),
    /given up/,
  );
});

const ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** A server that answers the handshake with `head` and goes on with `bytes`, so many at a time. */
async function raw(
  bytes: number[] | Uint8Array,
  options: { accept?: string; head?: string; step?: number } = {},
): Promise<{ port: number; got: () => Promise<Uint8Array>; [Symbol.dispose](): void }> {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const serving = (async () => {
    using conn = await listener.accept();
    const buffer = new Uint8Array(4096);
    const size = await conn.read(buffer);
    const request = new TextDecoder().decode(buffer.subarray(0, size!));
    const key = /sec-websocket-key: (\S+)/.exec(request)![1];
    const digest = await crypto.subtle.digest("SHA-1", new TextEncoder().encode(key + ACCEPT));
    const accept = options.accept ?? new Uint8Array(digest).toBase64();
    const head = options.head ??
      `HTTP/1.1 101 Switching Protocols\r\nX: y\r\nSEC-WebSocket-Accept:  ${accept}\r\n\r\n`;
    const all = new Uint8Array([...new TextEncoder().encode(head), ...bytes]);
    const step = options.step ?? all.length;
    for (let at = 0; at < all.length; at += step) {
      await conn.write(all.subarray(at, at + step));
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    const got: number[] = [];
    for (let size = await conn.read(buffer); size; size = await conn.read(buffer)) {
      got.push(...buffer.subarray(0, size));
    }
    return new Uint8Array(got);
  })();
  serving.catch(() => {/* it was hung up */});
  return {
    port: (listener.addr as Deno.NetAddr).port,
    got: () => serving,
    [Symbol.dispose]: () => listener.close(),
  };
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const letters = (word: string) => [...new TextEncoder().encode(word)];

Deno.test("plain link: frames in pieces, pings between them, and a close are the protocol's", async () => {
  const frames = [
    ...[0x02, 3, ...letters("one")],
    ...[0x89, 2, ...letters("hi")],
    ...[0x00, 0],
    ...[0x80, 126, 0, 3, ...letters("two")],
    ...[0x82, 127, 0, 0, 0, 0, 0, 0, 0, 5, ...letters("three")],
    ...[0x8a, 0],
    ...[0x88, 2, 3, 232],
  ];
  for (const step of [1, 2, 7, 1000]) {
    using server = await raw(frames, { step });
    await using open = await openAt(server.port);
    assert.equal(text(await open.came(11)), "onetwothree");
    await open.closed;
    const got = await server.got();
    // The pong and the close, both masked.
    assert.deepEqual([got[0], got[1], got[8], got[9]], [0x8a, 0x82, 0x88, 0x82]);
    const mask = got.subarray(2, 6);
    assert.equal(text(got.subarray(6, 8).map((byte, at) => byte ^ mask[at])), "hi");
  }
});

Deno.test("plain link: what is no WebSocket ends it, and nothing of that is passed on", async () => {
  const rubbish: number[][] = [
    [0x81, 1, 65],
    [0xc2, 1, 65],
    [0x82, 0x81, 0, 0, 0, 0, 65],
    [0x80, 1, 65],
    [0x02, 1, 65, 0x82, 1, 65],
    [0x89, 126, 0, 200],
    [0x09, 0],
    [0x83, 0],
    letters("HTTP/1.1 200 OK\r\n\r\n"),
  ];
  for (const bytes of rubbish) {
    using server = await raw(bytes);
    const open = await openAt(server.port);
    await open.closed;
    open.link.close();
    assert.equal((await server.got()).length, 0, String(bytes));
  }
  const refused = [
    { accept: "AAAAAAAAAAAAAAAAAAAAAAAAAAA=" },
    { head: "HTTP/1.1 200 OK\r\n\r\n" },
    { head: "HTTP/1.1 101 Switching Protocols\r\n\r\n" },
    { head: "x".repeat(40_000) },
  ];
  for (const options of refused) {
    using server = await raw([], options);
    await assert.rejects(openAt(server.port), /refused|no answer/);
  }
});
