import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { SocketStream, STREAM_WINDOW } from "./socket_stream.ts";
import { pattern, readAll } from "./testing.ts";

const text = (bytes?: Uint8Array) => new TextDecoder().decode(bytes);
const bytes = (words: string) => new TextEncoder().encode(words);
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** One end of a connection: what was sent, and what it does to the other end. */
class Socket {
  readyState: number = WebSocket.OPEN;
  bufferedAmount = 0;
  sent: (Uint8Array | string)[] = [];
  closed: { code: number; reason: string } | undefined;
  onSend: (data: Uint8Array | string) => void = () => {};
  onClose: (event: { code: number; reason: string }) => void = () => {};

  send(data: Uint8Array | string): void {
    this.sent.push(data);
    this.onSend(data);
  }

  close(code = 1005, reason = ""): void {
    this.readyState = WebSocket.CLOSING;
    this.closed = { code, reason };
    this.onClose(this.closed);
  }

  /** Bytes of messages. */
  get bytes(): number {
    return this.sent.reduce((sum, one) => sum + (typeof one === "string" ? 0 : one.length), 0);
  }
}

const lost = (why: string) => new SvcError("upstream_failed", `Cannot go on: ${why}`);

function one(beatMs = 0) {
  const socket = new Socket();
  const stream = new SocketStream({ lost, beatMs });
  stream.attach(socket as unknown as WebSocket);
  return { socket, stream };
}

/** Two ends; what one sends comes to the other in a later turn, in order. */
function pair() {
  const [a, b] = [one(), one()];
  const join = (from: typeof a, to: typeof a) => {
    let last = Promise.resolve();
    const later = (act: () => void) => void (last = last.then(turn).then(act));
    from.socket.onSend = (data) =>
      later(() => to.stream.receive(typeof data === "string" ? data : data.slice()));
    from.socket.onClose = (event) =>
      later(() => {
        to.socket.readyState = WebSocket.CLOSED;
        to.stream.lost(event);
        from.stream.lost(event);
      });
  };
  join(a, b);
  join(b, a);
  return [a, b];
}

Deno.test("socket stream: bytes of any size travel both ways, and each direction has its end", async () => {
  const [a, b] = pair();
  const sizes = [1, 2, 4095, 4096, 4097, 65_536, 65_537, 3_000_000, 5];
  const send = async (stream: SocketStream, seed: number) => {
    const parts = sizes.map((size) => pattern(size, seed));
    await Promise.all([...parts.map((part) => stream.write(part)), stream.write(new Uint8Array())]);
    await stream.closeWrite();
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  };
  const [sentA, sentB, readB, readA] = await Promise.all([
    send(a.stream, 3),
    send(b.stream, 7),
    readAll(b.stream),
    readAll(a.stream),
  ]);
  assert.deepEqual(readB, sentA);
  assert.deepEqual(readA, sentB);
  assert.equal(await a.stream.closed, undefined);
  assert.equal(await b.stream.closed, undefined);
  assert.equal((a.socket.closed ?? b.socket.closed)?.code, 1000);
});

Deno.test("socket stream: a reader that does not read stops the writer, and nothing piles up", async () => {
  const [a, b] = pair();
  let written = 0;
  const part = new Uint8Array(10_000);
  const writing = (async () => {
    for (; written < 4 * STREAM_WINDOW; written += part.length) await a.stream.write(part);
    await a.stream.closeWrite();
  })();
  for (let before = -1; before !== written;) {
    before = written;
    for (let turns = 0; turns < 50; turns++) await turn();
  }
  assert(a.socket.bytes <= STREAM_WINDOW);
  assert(a.socket.bytes > STREAM_WINDOW - part.length);
  // The other direction goes on all the while.
  await b.stream.write(bytes("still here"));
  assert.equal(text(await a.stream.read()), "still here");
  assert.equal((await readAll(b.stream)).length, written);
  await writing;
});

Deno.test("socket stream: small messages that wait are gathered", async () => {
  const { stream } = one();
  const sent = pattern(100_000);
  for (let at = 0; at < sent.length; at += 10) stream.receive(sent.slice(at, at + 10));
  stream.receive(new Uint8Array());
  let reads = 0;
  const counted = { read: () => (reads++, stream.read()) };
  assert.deepEqual(await readAll(counted), sent);
  assert(reads < 12, `${reads} reads`);
});

Deno.test("socket stream: many small messages wait for the socket that takes none", async () => {
  const { socket, stream } = one();
  socket.bufferedAmount = 1;
  let written = 0;
  const writing = (async () => {
    for (; written < 5000; written++) await stream.write(new Uint8Array(1));
  })();
  for (let turns = 0; turns < 5000; turns++) await turn();
  assert(written <= 1100, `${written} were sent`);
  socket.bufferedAmount = 0;
  await writing;
});

Deno.test("socket stream: what the other side must not send ends it, and is told", async () => {
  const wrong: [string, (stream: SocketStream) => void][] = [
    ["more than it may send", (stream) => {
      for (let sent = 0; sent <= STREAM_WINDOW; sent += 65_536) {
        stream.receive(new Uint8Array(65_536));
      }
    }],
    ["bytes after the end", (stream) => {
      stream.receive(new Uint8Array());
      stream.receive(new Uint8Array(1));
    }],
    ["a message that is none of the stream's", (stream) => stream.receive("{")],
    ["a message that is none of the stream's", (stream) => stream.receive("null")],
    ["a message that is none of the stream's", (stream) => stream.receive("[]")],
    ["a message that is none of the stream's", (stream) => stream.receive('{"ack":1}')],
    ["a message that is none of the stream's", (stream) => stream.receive('{"ack":-1}')],
    ["a message that is none of the stream's", (stream) => stream.receive('{"ack":0.5}')],
    ["a message that is none of the stream's", (stream) => stream.receive('{"error":{"code":7}}')],
    [
      "a message that is none of the stream's",
      (stream) => stream.receive(`{"ack":${" ".repeat(20_000)}0}`),
    ],
  ];
  for (const [what, act] of wrong) {
    const { socket, stream } = one();
    act(stream);
    assert.deepEqual(
      JSON.parse(socket.sent.at(-1) as string).error.detail,
      `Cannot go on: the other side sent ${what}`,
    );
    assert.equal(socket.closed?.code, 4000);
    await assert.rejects(stream.write(new Uint8Array(1)), { code: "upstream_failed" });
    assert.notEqual(await stream.closed, undefined);
    // What comes now is nobody's.
    const { length } = socket.sent;
    stream.receive(new Uint8Array(9));
    stream.receive("x");
    assert.equal(socket.sent.length, length);
  }
});

Deno.test("socket stream: a failure comes behind what was sent before it", async () => {
  const [a, b] = pair();
  await a.stream.write(bytes("so far"));
  a.stream.fail(new SvcError("unavailable", `Cannot go on: ${"ä".repeat(200)}`, { help: "wait" }));
  assert.equal(text(await b.stream.read()), "so far");
  await assert.rejects(b.stream.read(), { code: "unavailable", help: "wait" });
  const { code, reason } = a.socket.closed!;
  assert.equal(code, 4000);
  assert.match(reason, /^unavailable: Cannot go on: ä+$/);
  assert(bytes(reason).length <= 123);
  await assert.rejects(a.stream.read(), { code: "unavailable" });

  const newer = one();
  newer.stream.receive('{"error":{"code":"of_next_year","detail":"Cannot: no"}}');
  await assert.rejects(newer.stream.read(), { code: "upstream_failed", message: "Cannot: no" });
});

Deno.test("socket stream: a connection that is lost breaks what waits; an end in order does not", async () => {
  const cut = one();
  const reading = assert.rejects(cut.stream.read(), { message: /the connection was lost/ });
  const full = cut.stream.write(new Uint8Array(2 * STREAM_WINDOW));
  const writing = assert.rejects(full, { code: "upstream_failed" });
  await turn();
  cut.stream.lost({ code: 1006, reason: "" });
  await Promise.all([reading, writing]);

  const [a, b] = pair();
  await a.stream.write(bytes("last words"));
  a.stream.end();
  assert.equal(text(await b.stream.read()), "last words");
  assert.equal(await b.stream.read(), undefined);
  assert.equal(await b.stream.closed, undefined);
  await assert.rejects(b.stream.write(new Uint8Array(1)), { message: /it has ended/ });

  const reset = one();
  reset.stream.receive(bytes("dropped"));
  reset.stream.reset();
  await assert.rejects(reset.stream.read(), { message: /it was reset here/ });
  assert.equal(reset.socket.closed?.code, 4000);
});

Deno.test("socket stream: what fails before the socket is there is told once it is", () => {
  const late = new SocketStream({ lost, beatMs: 0 });
  late.fail(new SvcError("unavailable", "Cannot go on: shutting down"));
  const socket = new Socket();
  late.attach(socket as unknown as WebSocket);
  assert.match(socket.sent[0] as string, /shutting down/);
  assert.equal(socket.closed?.code, 4000);
});

Deno.test("socket stream: a side that gives no sign of life for long is gone", async () => {
  const { socket, stream } = one(5);
  await assert.rejects(stream.read(), { message: /no longer answers/ });
  assert.equal(socket.sent[0], '{"ack":0}');
  assert.equal(socket.closed?.code, 4000);
  // One that takes nothing of what it is told, for all that it sends.
  const deaf = one();
  deaf.socket.bufferedAmount = 100 * STREAM_WINDOW;
  for (let sent = 0; sent < STREAM_WINDOW; sent += 65_536) {
    deaf.stream.receive(new Uint8Array(65_536));
  }
  await assert.rejects(readAll(deaf.stream), { message: /does not read/ });
});
