/**
 * Bodies that a store takes from their connections by itself: real sockets, a real file store. What arrives
 * must be the same as over any other way, and the connection must go on with the next request.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHash, randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { openFsStore } from "../../backends/store/fs.ts";
import { SvcError } from "../../lib/base/errors.ts";
import { silent } from "../../lib/base/log.ts";
import type { RequestBody } from "../../lib/base/request_body.ts";
import { listen } from "../../lib/server/listener.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";

const KIB = 1024;
const REPOSITORY = "x";

interface World extends AsyncDisposable {
  store: ContentStore;
  port: number;
  /** Bodies that the store took by itself. */
  taken: () => number;
  /** What the last append failed with. */
  failure: () => unknown;
}

/** `PATCH /v2/x/blobs/uploads/ID?at=N&limit=N` appends and answers with the offset; GET answers "pong". */
async function world(): Promise<World> {
  const root = await Deno.makeTempDir();
  const objects = await openFsStore(root);
  const store = createContentStore(objects, { log: silent });
  let taken = 0;
  let failure: unknown;
  const listener = await listen({ hostname: "127.0.0.1", port: 0 }, async (request) => {
    const url = new URL(request.url);
    if (request.method === "GET") return answer(200, "pong");
    if (url.searchParams.has("refuse")) return answer(403, "no");
    const upload = await store.openUpload(REPOSITORY, url.pathname.split("/").at(-1)!);
    if (!upload) return answer(404, "unknown");
    const body: RequestBody = request.body ?? ReadableStream.from([]);
    const { takeOver } = body;
    if (takeOver) {
      const value = () => {
        const lent = takeOver();
        if (lent) taken++;
        return lent;
      };
      Object.defineProperty(body, "takeOver", { value });
    }
    try {
      const limit = url.searchParams.get("limit");
      // Through another stream the connection cannot be taken.
      const passed = url.searchParams.has("stream")
        ? body.pipeThrough(new TransformStream())
        : body;
      await upload.append(passed, { signal: request.signal, ...limit && { limit: Number(limit) } });
    } catch (error) {
      failure = error;
      return answer(400, String((error as Error).message));
    }
    return answer(202, String(upload.offset));
  });
  return {
    store,
    port: listener.address.port,
    taken: () => taken,
    failure: () => failure,
    async [Symbol.asyncDispose]() {
      await listener.close();
      await store[Symbol.asyncDispose]();
      await objects[Symbol.asyncDispose]();
      await Deno.remove(root, { recursive: true });
    },
  };
}

const answer = (status: number, text: string) =>
  new Response(text, { status, headers: { "content-length": String(text.length) } });

/** The framed body, and its head. */
function request(id: string, body: Uint8Array, chunked: boolean, query = ""): Buffer {
  const framing = chunked ? "transfer-encoding: chunked" : `content-length: ${body.length}`;
  const head =
    `PATCH /v2/${REPOSITORY}/blobs/uploads/${id}${query} HTTP/1.1\r\nhost: x\r\n${framing}`;
  const parts = [Buffer.from(`${head}\r\n\r\n`)];
  if (!chunked) return Buffer.concat([...parts, body]);
  for (let at = 0; at < body.length;) {
    const size = Math.min(body.length - at, 1 + Math.floor(Math.random() * 70_000));
    parts.push(Buffer.from(`${size.toString(16)}\r\n`), Buffer.from(body.subarray(at, at + size)));
    parts.push(Buffer.from("\r\n"));
    at += size;
  }
  return Buffer.concat([...parts, Buffer.from("0\r\n\r\n")]);
}

class Client {
  text = "";
  closed = false;
  #changed = Promise.withResolvers<void>();

  private constructor(readonly socket: Socket) {
    socket.on("data", (bytes: Buffer) => {
      this.text += bytes.toString("latin1");
      this.#change();
    });
    socket.on("close", () => {
      this.closed = true;
      this.#change();
    });
    socket.on("error", () => {/* "close" follows */});
  }

  static open(port: number): Promise<Client> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => resolve(new Client(socket)));
      socket.once("error", reject);
    });
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  /** Writes in pieces with turns of the event loop between them. */
  async send(bytes: Buffer, piece: number): Promise<void> {
    for (let at = 0; at < bytes.length && !this.closed; at += piece) {
      const more = this.socket.write(bytes.subarray(at, at + piece));
      await new Promise<void>((resolve) => {
        if (more) setImmediate(resolve);
        else this.socket.once("drain", resolve).once("close", resolve);
      });
    }
  }

  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.text)) {
      if (this.closed) assert.fail(`closed after ${JSON.stringify(this.text)}`);
      await this.#changed.promise;
    }
    const { text } = this;
    this.text = "";
    return text;
  }

  async end(): Promise<string> {
    while (!this.closed) await this.#changed.promise;
    return this.text;
  }
}

const digestOf = (...parts: Uint8Array[]) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return `sha256:${hash.digest("hex")}`;
};
const GET = Buffer.from("GET /ping HTTP/1.1\r\nhost: x\r\n\r\n");
const LINUX = { ignore: Deno.build.os !== "linux" };

Deno.test(
  "intake: bodies arrive whole, in any framing and pieces, and the connection goes on",
  LINUX,
  async () => {
    await using it = await world();
    const client = async (way: number) => {
      const client = await Client.open(it.port);
      const chunked = way % 2 === 0;
      const upload = await it.store.startUpload(REPOSITORY);
      const bodies: Uint8Array[] = [];
      for (const kib of [1, 255, 256, 300, 1500, 3000]) {
        const body = randomBytes(kib * KIB + way);
        bodies.push(body);
        const query = kib === 300 ? "?stream" : "";
        const bytes = request(upload.id, body, chunked, query);
        // The next request is on its way before this one is answered.
        const both = way % 3 === 0 ? Buffer.concat([bytes, GET]) : bytes;
        await client.send(both, [70_000, 9_999_999, 1_000_000, 200_001][way % 4]);
        const held = bodies.reduce((sum, { length }) => sum + length, 0);
        const expected = both === bytes ? `${held}$` : `${held}HTTP/1.1 200 [^]*pong$`;
        await client.until(new RegExp(`^HTTP/1.1 202 [^]*\r\n\r\n${expected}`));
      }
      await upload.commit(digestOf(...bodies));
      client.socket.destroy();
    };
    await Promise.all(Array.from({ length: 8 }, (_, way) => client(way)));
    assert.ok(it.taken() >= 8 * 3, `${it.taken()} were taken`);
  },
);

Deno.test(
  "intake: a connection that breaks leaves what arrived, and the upload goes on",
  LINUX,
  async () => {
    await using it = await world();
    const upload = await it.store.startUpload(REPOSITORY);
    const body = randomBytes(2000 * KIB);
    const client = await Client.open(it.port);
    await client.send(request(upload.id, body, false).subarray(0, 1500 * KIB), 64 * KIB);
    while (it.taken() === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    client.socket.destroy();
    await client.end();
    const again = await it.store.openUpload(REPOSITORY, upload.id);
    for (let n = 0; !it.failure() && n < 3000; n++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    assert.equal((it.failure() as SvcError).code, "cancelled");
    const { offset } = again!;
    assert.ok(offset > 0 && offset < 1500 * KIB);
    const other = await Client.open(it.port);
    await other.send(request(upload.id, body.subarray(offset), true), 1_000_000);
    await other.until(new RegExp(`\r\n\r\n${body.length}$`));
    await upload.commit(digestOf(body));
    other.socket.destroy();
  },
);

Deno.test(
  "intake: too long, malformed and refused bodies end the connection and keep the upload",
  LINUX,
  async () => {
    await using it = await world();
    const upload = await it.store.startUpload(REPOSITORY);
    const body = randomBytes(600 * KIB);
    const tooLong = await Client.open(it.port);
    await tooLong.send(request(upload.id, body, true, `?limit=${500 * KIB}`), 100_000);
    assert.match(
      await tooLong.end(),
      /^HTTP\/1.1 400 [^]*connection: close[^]*more than 512000 bytes/,
    );
    assert.equal(upload.offset, 500 * KIB);

    const malformed = await Client.open(it.port);
    const broken = Buffer.concat([
      request(upload.id, body, true).subarray(0, -5),
      Buffer.from("zz\r\n"),
    ]);
    await malformed.send(broken, 100_000);
    assert.match(await malformed.end(), /^HTTP\/1.1 400 [^]*malformed/);
    assert.equal(upload.offset, 1100 * KIB);

    const refused = await Client.open(it.port);
    await refused.send(request(upload.id, body, false, "?refuse"), 100_000);
    assert.match(await refused.end(), /^HTTP\/1.1 403 [^]*connection: close/);
    assert.equal(upload.offset, 1100 * KIB);
    await upload.commit(digestOf(body.subarray(0, 500 * KIB), body));
  },
);

Deno.test("intake: descriptors are given back, whatever happened", LINUX, async () => {
  await using it = await world();
  const files = () => [...Deno.readDirSync("/proc/self/fd")].length;
  const round = async () => {
    const upload = await it.store.startUpload(REPOSITORY);
    const body = randomBytes(400 * KIB);
    const whole = await Client.open(it.port);
    await whole.send(request(upload.id, body, true), 100_000);
    await whole.until(/\r\n\r\n409600$/);
    whole.socket.destroy();
    const half = await Client.open(it.port);
    await half.send(request(upload.id, body, true).subarray(0, 300 * KIB), 100_000);
    half.socket.destroy();
    await half.end();
    await upload.abort();
  };
  await round();
  // What the runtime and the Workers open for themselves, once, may come at any time.
  const most = files() + 3;
  for (let n = 0; n < 12; n++) await round();
  for (let n = 0; files() > most && n < 3000; n++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.ok(files() <= most, `${files()} open, at most ${most} expected`);
});
