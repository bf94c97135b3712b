/** Plain connections: requests of all kinds, behind each other, in any pieces. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHash, type Hash, randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { ChunkedDecoder } from "../../base/chunked.ts";
import { canLend, descriptorOf } from "../../base/node_hooks.ts";
import type { LentConnection, RequestBody } from "../../base/request_body.ts";
import { Readiness, receive } from "../../sys/readiness.ts";
import { Reply } from "../../api/reply.ts";
import { type Handler, listen } from "../listener.ts";

const ignore = Deno.build.os !== "linux";
const EVIL = "\r\n\r\nGET /evil HTTP/1.1\r\nhost: x\r\n\r\n";
const KIB = 1024;

/** Reads a body from the connection itself, as a store does. */
async function readLent(lent: LentConnection, hash: Hash): Promise<void> {
  using stack = new DisposableStack();
  const readiness = new Readiness();
  stack.defer(() => readiness.forget(lent.descriptor));
  const decoder = lent.length === undefined ? new ChunkedDecoder() : undefined;
  let left = lent.length ?? 0;
  const take = (bytes: Uint8Array): Uint8Array | undefined => {
    if (decoder) {
      const end = decoder.feed(bytes, (start, stop) => hash.update(bytes.subarray(start, stop)));
      return end === undefined ? undefined : bytes.slice(end);
    }
    const mine = bytes.subarray(0, left);
    hash.update(mine);
    left -= mine.length;
    return left === 0 ? bytes.slice(mine.length) : undefined;
  };
  let rest = take(lent.prefix);
  const buffer = new Uint8Array(64 * KIB);
  while (!rest) {
    const room = decoder ? buffer.length : Math.min(buffer.length, left);
    const got = receive(lent.descriptor, buffer.subarray(0, room));
    if (got === 0) return lent.end(undefined);
    if (got === undefined) await readiness.wait(lent.descriptor, "read");
    else rest = take(buffer.subarray(0, got));
  }
  lent.end(rest);
}

interface World extends AsyncDisposable {
  port: number;
  /** How many bodies were taken from their connection. */
  lent: number;
  /** Requests of paths with "slow" wait for it. */
  slow: () => Promise<void>;
}

/** Answers with `[METHOD PATH DIGEST]`. Bodies of paths with "take" are taken where they can be. */
async function world(): Promise<World> {
  const handler: Handler = async (request) => {
    const hash = createHash("sha256");
    const { pathname } = new URL(request.url);
    if (pathname.includes("slow")) await it.slow();
    const body: RequestBody | null = request.body;
    const lent = pathname.includes("take") ? body?.takeOver?.() : undefined;
    if (lent) {
      it.lent++;
      await readLent(lent, hash);
    } else if (body) {
      for await (const bytes of body) hash.update(bytes);
    }
    const text = Buffer.from(`[${request.method} ${pathname} ${hash.digest("hex")}]`);
    return new Reply(200, { "content-length": String(text.length) }, text);
  };
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, handler);
  const it: World = {
    port: listener.address.port,
    lent: 0,
    slow: () => Promise.resolve(),
    [Symbol.asyncDispose]: () => listener.close(),
  };
  return it;
}

const below = (most: number) => Math.floor(Math.random() * most);

function chunked(body: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length;) {
    const part = body.subarray(at, at + 1 + below(90 * KIB));
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from("\r\n"));
    at += part.length;
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

/** A request of any kind, with its answer. Bodies look like further requests. `uploads`: blobs only. */
function anyRequest(n: number, uploads: boolean): { bytes: Buffer; answer: string } {
  const sizes = [uploads ? 1 : 0, 3, KIB, 100 * KIB, 257 * KIB, 600 * KIB];
  const size = sizes[below(sizes.length)];
  const text = [EVIL, Buffer.alloc(200, "\r\n"), randomBytes(200)][below(3)];
  const body = Buffer.alloc(size, text);
  const place = uploads ? "/v2/a/blobs/uploads/" : "/";
  const path = `${place}${n}${Math.random() < 0.6 ? "/take" : ""}`;
  const method = size === 0 ? "GET" : ["PATCH", "POST", "PUT"][below(3)];
  const isChunked = Math.random() < 0.5;
  const framing = size === 0
    ? ""
    : isChunked
    ? "transfer-encoding: chunked\r\n"
    : `content-length: ${size}\r\n`;
  const blank = !uploads && Math.random() < 0.1 ? "\r\n" : "";
  const head = Buffer.from(`${blank}${method} ${path} HTTP/1.1\r\nhost: x\r\n${framing}\r\n`);
  const rest = size === 0 ? Buffer.alloc(0) : isChunked ? chunked(body) : body;
  const digest = createHash("sha256").update(body).digest("hex");
  return { bytes: Buffer.concat([head, rest]), answer: `[${method} ${path} ${digest}]` };
}

async function dial(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  await new Promise<void>((resolve, reject) => {
    socket.once("error", reject);
    socket.once("connect", () => resolve());
  });
  socket.setNoDelay(true);
  return socket;
}

/** All answers that come for these pieces, `count` of them. */
async function ask(
  port: number,
  pieces: Iterable<Buffer> | AsyncIterable<Buffer>,
  count: number,
): Promise<string[]> {
  const socket = await dial(port);
  let all = "";
  const ended = new Promise<void>((resolve) => {
    socket.on("data", (bytes: Buffer) => {
      all += bytes.toString("latin1");
      if (all.split("]").length > count) resolve();
    });
    socket.on("error", () => {/* "close" follows */});
    socket.once("close", () => resolve());
  });
  for await (const piece of pieces) {
    await new Promise<void>((resolve) => socket.write(piece, () => setImmediate(resolve)));
  }
  await ended;
  socket.destroy();
  return [...all.matchAll(/\[[^\]]*\]/g)].map(([answer]) => answer);
}

/** Pieces of any size; around the seams of heads and bodies also single bytes. */
function* cut(requests: Buffer[], way: number): Generator<Buffer> {
  if (way === 0) return yield Buffer.concat(requests);
  if (way === 1) return yield* requests;
  const bytes = Buffer.concat(requests);
  for (let at = 0; at < bytes.length;) {
    const end = bytes.indexOf("\r\n\r\n", at);
    const near = way === 3 && end >= 0 && end - at < 8 && Math.random() < 0.2;
    const size = near ? 1 : 1 + below(200_000);
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

Deno.test({
  name: "connection: requests behind each other, in any pieces, are read as they are",
  ignore,
  async fn() {
    await using it = await world();
    const body = Buffer.alloc(300 * KIB, EVIL);
    const head = "PUT /v2/a/blobs/uploads/take HTTP/1.1\r\nhost: x\r\n";
    const plain = Buffer.concat([
      Buffer.from(`${head}content-length: ${body.length}\r\n\r\n`),
      body,
    ]);
    const coded = Buffer.concat([
      Buffer.from(`${head}transfer-encoding: chunked\r\n\r\n`),
      chunked(body),
    ]);
    const taken = `[PUT /v2/a/blobs/uploads/take ${
      createHash("sha256").update(body).digest("hex")
    }]`;
    assert.deepEqual(await ask(it.port, [plain, coded, plain], 3), [taken, taken, taken]);
    // What was sent behind a body that was taken is taken too.
    assert.equal(it.lent, 3);
    it.lent = 0;
    await Promise.all(Array.from({ length: 8 }, async (_, client) => {
      for (let round = 0; round < 6; round++) {
        const uploads = round % 2 === 0;
        const requests = Array.from({ length: 6 }, (_, n) => anyRequest(n, uploads));
        const pieces = cut(requests.map(({ bytes }) => bytes), (client + round) % 4);
        const answers = await ask(it.port, pieces, requests.length);
        assert.deepEqual(answers, requests.map(({ answer }) => answer));
      }
    }));
    assert.ok(it.lent > 0);
  },
});

Deno.test({
  name: "connection: a body is taken with all that was read before its request's turn came",
  ignore,
  async fn() {
    await using it = await world();
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    const body = randomBytes(600 * KIB);
    const digest = createHash("sha256").update(body).digest("hex");
    const length = `content-length: ${body.length}`;
    const coding = "transfer-encoding: chunked";
    for (const [framing, framed] of [[length, body], [coding, chunked(body)]] as const) {
      for (const first of ["GET /slow", "PUT /v2/a/blobs/uploads/slow"]) {
        const one = first.startsWith("PUT") ? "content-length: 1\r\n\r\nx" : "\r\n";
        const [reached, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
        it.slow = () => {
          reached.resolve();
          return over.promise;
        };
        const pieces = async function* () {
          yield Buffer.from(`${first} HTTP/1.1\r\nhost: x\r\n${one}`);
          await reached.promise;
          yield Buffer.from(
            `PUT /v2/a/blobs/uploads/take HTTP/1.1\r\nhost: x\r\n${framing}\r\n\r\n`,
          );
          for (let at = 0; at < framed.length; at += 20 * KIB) {
            yield framed.subarray(at, at + 20 * KIB);
            await turn();
            // Enough for the server to read ahead; what it does not read, the kernels take.
            if (at === 400 * KIB) {
              for (let n = 0; n < 20; n++) await turn();
              over.resolve();
            }
          }
        };
        const answers = await ask(it.port, pieces(), 2);
        assert.equal(answers[1], `[PUT /v2/a/blobs/uploads/take ${digest}]`, `${first} ${framing}`);
      }
    }
    assert.equal(it.lent, 4);
  },
});

Deno.test({
  name: "connection: nothing is read ahead of a body that nobody reads",
  ignore,
  async fn() {
    const wanted = Promise.withResolvers<void>();
    let taken = 0;
    await using cleanup = new AsyncDisposableStack();
    const listener = await listen({ hostname: "127.0.0.1", port: 0 }, async ({ body, url }) => {
      if (url.endsWith("/c")) { for await (const _ of body!) await wanted.promise; }
      await wanted.promise;
      if (!body?.locked) { for await (const bytes of body ?? []) taken += bytes.length; }
      return new Response(`${taken}]`);
    });
    cleanup.defer(() => listener.close());
    const total = 96 * KIB * KIB;
    const chunk = Buffer.alloc(64 * KIB);
    // The second body lies behind the first, which nobody searches for heads.
    const first =
      "POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    // Of the third a reader takes a little, and stops.
    const stops = async (before: string, path: string) => {
      const socket = await dial(listener.address.port);
      cleanup.defer(() => void socket.destroy());
      socket.write(`${before}POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${total}\r\n\r\n`);
      let left = 0;
      let more = true;
      while (more && left < total) {
        left += chunk.length;
        const written = new Promise<boolean>((resolve) => socket.write(chunk, () => resolve(true)));
        const late = new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 3000));
        more = await Promise.race([written, late]);
      }
      assert.ok(left < total / 2, `${left} bytes were taken`);
    };
    await Promise.all([stops("", "/b"), stops(first, "/b"), stops("", "/c")]);
    wanted.resolve();
  },
});

Deno.test({
  name: "connection: a runtime without the hooks serves all the same, through streams",
  ignore,
  async fn() {
    const file = await Deno.makeTempFile();
    const large = new Uint8Array(randomBytes(1024 * KIB));
    await Deno.writeFile(file, large);
    await using cleanup = new AsyncDisposableStack();
    cleanup.defer(() => Deno.remove(file));
    let offered = false;
    const listener = await listen({ hostname: "127.0.0.1", port: 0 }, async (request) => {
      const body: RequestBody | null = request.body;
      offered ||= body?.takeOver !== undefined;
      const hash = createHash("sha256");
      for await (const bytes of body ?? []) hash.update(bytes);
      return request.method === "GET"
        ? new Reply(200, { "content-length": String(large.length) }, {
          size: large.length,
          stream: () => ReadableStream.from([large]),
          file: { path: file, offset: 0 },
        })
        : new Response(hash.digest("hex"));
    });
    cleanup.defer(() => listener.close());
    const url = `http://127.0.0.1:${listener.address.port}/`;
    const exchange = async () => {
      // A connection for each: after a request for node's parser it stays with node.
      using first = Deno.createHttpClient({});
      using second = Deno.createHttpClient({});
      const up = await fetch(`${url}v2/a/blobs/uploads/x`, {
        client: first,
        method: "PUT",
        body: large,
      });
      assert.equal(await up.text(), createHash("sha256").update(large).digest("hex"));
      const down = await fetch(url, { client: second });
      assert.deepEqual(await down.bytes(), large);
    };
    await exchange();
    assert.ok(offered, "with the hooks, the body can be taken");
    const socket = await dial(listener.address.port);
    cleanup.defer(() => void socket.destroy());
    assert.ok(canLend(socket));
    let owner = (socket as unknown as { _handle: object })._handle;
    while (!Object.hasOwn(owner, "fdForIpc")) owner = Object.getPrototypeOf(owner);
    const kept = Object.getOwnPropertyDescriptor(owner, "fdForIpc")!;
    Object.defineProperty(owner, "fdForIpc", { value: undefined, configurable: true });
    offered = false;
    try {
      assert.equal(descriptorOf(socket), undefined);
      await exchange();
      await exchange();
      assert.ok(!offered, "without them, it cannot");
    } finally {
      Object.defineProperty(owner, "fdForIpc", kept);
    }
  },
});

Deno.test("connection: the head of an endless answer leaves before its first bytes", async () => {
  const ended = Promise.withResolvers<void>();
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, () => {
    const body = new ReadableStream({
      async pull(controller) {
        await ended.promise;
        controller.close();
      },
    });
    return Promise.resolve(new Response(body));
  });
  const url = `http://127.0.0.1:${listener.address.port}/`;
  // Node's parser reads a POST, and what follows it on its connection.
  const answers = [await fetch(url), await fetch(url, { method: "POST", body: "x" })];
  ended.resolve();
  for (const answer of answers) assert.equal(await answer.text(), "");
  await listener.close();
});
