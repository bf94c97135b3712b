import assert from "node:assert/strict";
import fc from "fast-check";
import { SvcError } from "../../base/errors.ts";
import { pattern, readAll, RUNS, SEED, yamuxPair } from "../testing.ts";
import { encodeFrame, FLAG, INITIAL_WINDOW, TYPE } from "./frame.ts";
import { type Link, type YamuxOptions, YamuxSession } from "./session.ts";
import type { YamuxStream } from "./stream.ts";

const broken = (error: unknown) => error instanceof SvcError && error.code === "upstream_failed";

/** A session alone, with what it sends kept. */
function alone(options: Partial<YamuxOptions> = {}) {
  const sent: Uint8Array[] = [];
  let closed = false;
  const link: Link = {
    send: (head, data = new Uint8Array(0)) =>
      Promise.resolve(void sent.push(new Uint8Array([...head, ...data]))),
    close: () => void (closed = true),
  };
  const session = new YamuxSession(link, { role: "server", keepAliveMs: 0, ...options });
  return { session, sent, closed: () => closed };
}

Deno.test("yamux: writes of 64 KB and more arrive whole, whatever the pieces", async () => {
  for (const pieces of [1000, 65536, 1 << 20]) {
    const got = Promise.withResolvers<Uint8Array>();
    using pair = yamuxPair({
      pieces,
      server: { onStream: (stream) => void readAll(stream).then(got.resolve, got.reject) },
    });
    const bytes = pattern(3 * 1024 * 1024 + 17);
    const stream = pair.client.open();
    for (let at = 0; at < bytes.length; at += 65536) {
      await stream.write(bytes.subarray(at, at + 65536));
    }
    await stream.closeWrite();
    assert.deepEqual(await got.promise, bytes);
  }
});

Deno.test("yamux: each direction ends by itself", async () => {
  using pair = yamuxPair({
    server: {
      onStream: (stream) =>
        void (async () => {
          const question = await readAll(stream);
          await stream.write(new Uint8Array([...question].reverse()));
          await stream.closeWrite();
        })(),
    },
  });
  const stream = pair.client.open();
  await stream.write(new Uint8Array([1, 2, 3]));
  await stream.closeWrite();
  assert.deepEqual([...await readAll(stream)], [3, 2, 1]);
  await assert.rejects(stream.write(new Uint8Array(1)), broken);
  await pair.client.ping();
  assert.deepEqual([pair.client.streams, pair.server.streams], [0, 0]);
});

Deno.test("yamux: a reader that waits holds its writer back, and no other stream", async () => {
  const streams: YamuxStream[] = [];
  using pair = yamuxPair({ server: { onStream: (stream) => void streams.push(stream) } });
  const slow = pair.client.open();
  let written = false;
  const bytes = pattern(4 << 20);
  const writing = slow.write(bytes).then(() => slow.closeWrite()).then(() => void (written = true));
  const other = pair.client.open();
  await other.write(new Uint8Array([7]));
  await other.closeWrite();
  while (streams.length < 2) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([...await readAll(streams[1])], [7]);
  for (let turn = 0; turn < 50; turn++) await pair.client.ping();
  assert.equal(written, false);
  assert.ok(pair.peak() <= INITIAL_WINDOW, `${pair.peak()} bytes on the way`);
  assert.deepEqual(await readAll(streams[0]), bytes);
  await writing;
});

Deno.test("yamux: many streams from both sides at once", async () => {
  const echo = (stream: YamuxStream) =>
    void (async () => {
      for (let part = await stream.read(); part; part = await stream.read()) {
        await stream.write(part);
      }
      await stream.closeWrite();
    })();
  using pair = yamuxPair({
    client: { onStream: echo },
    server: { onStream: echo },
  });
  await Promise.all(Array.from({ length: 120 }, async (_, index) => {
    const stream = (index % 2 ? pair.client : pair.server).open();
    const bytes = pattern(1000 + index * 997, index + 1);
    const [, back] = await Promise.all([
      stream.write(bytes).then(() => stream.closeWrite()),
      readAll(stream),
    ]);
    assert.deepEqual(back, bytes);
  }));
  await pair.client.ping();
  await pair.server.ping();
  assert.deepEqual([pair.client.streams, pair.server.streams], [0, 0]);
});

Deno.test("yamux: a reset and a lost connection end reads and writes", async () => {
  const streams: YamuxStream[] = [];
  using pair = yamuxPair({ server: { onStream: (stream) => void streams.push(stream) } });
  const first = pair.client.open();
  await first.write(new Uint8Array(1));
  while (streams.length < 1) await pair.client.ping();
  streams[0].reset();
  await assert.rejects(readAll(first), broken);
  await assert.rejects(first.write(new Uint8Array(1 << 20)), broken);
  const second = pair.client.open();
  await second.write(new Uint8Array(1));
  const blocked = assert.rejects(second.write(new Uint8Array(1 << 20)), broken);
  pair.server[Symbol.dispose]();
  await blocked;
  assert.ok(await pair.client.closed instanceof SvcError);
  assert.throws(() => pair.client.open(), broken);
  await assert.rejects(pair.client.ping(), broken);
});

Deno.test("yamux: a session that is closed ends without an error, and opens no more", async () => {
  using pair = yamuxPair();
  await pair.client.close();
  assert.equal(await pair.client.closed, undefined);
  await pair.server.closed;
  assert.throws(() => pair.server.open(), broken);
});

Deno.test("yamux: who breaks the protocol ends the session alone", async () => {
  const frame = (type: number, flags: number, stream: number, length: number, data?: Uint8Array) =>
    encodeFrame({ type, flags, stream, length }, data);
  const attacks: Uint8Array[][] = [
    [new Uint8Array(12).fill(255)],
    [frame(9, 0, 1, 0)],
    [frame(TYPE.DATA, 64, 1, 0)],
    [frame(TYPE.DATA, 0, 0, 0)],
    [frame(TYPE.PING, FLAG.SYN, 3, 0)],
    // more than the window
    [frame(TYPE.DATA, FLAG.SYN, 1, INITIAL_WINDOW + 1)],
    // twice the same, an even number from the client
    [frame(TYPE.WINDOW, FLAG.SYN, 1, 0), frame(TYPE.WINDOW, FLAG.SYN, 1, 0)],
    [frame(TYPE.WINDOW, FLAG.SYN, 2, 0)],
    // windows without end
    [frame(TYPE.WINDOW, FLAG.SYN, 1, 0xffffffff)],
    // data after the end
    [frame(TYPE.DATA, FLAG.SYN | FLAG.FIN, 1, 0), frame(TYPE.DATA, 0, 1, 1, new Uint8Array(1))],
  ];
  for (const [index, attack] of attacks.entries()) {
    const { session, closed } = alone({ onStream: () => {} });
    for (const bytes of attack) session.receive(bytes);
    assert.ok(broken(await session.closed), `attack ${index}`);
    assert.equal(closed(), true);
  }
});

Deno.test("yamux: streams beyond the limit, and where none are taken, are reset", async () => {
  const open = (id: number) =>
    encodeFrame({ type: TYPE.WINDOW, flags: FLAG.SYN, stream: id, length: 0 });
  const { session, sent } = alone({ onStream: () => {}, maxStreams: 2 });
  for (let id = 1; id < 20_000; id += 2) {
    session.receive(open(id));
    if (id % 1001 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  const deaf = alone();
  deaf.session.receive(open(1));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(session.streams, 2);
  assert.ok(sent.length > 0 && sent.every((bytes) => bytes[3] === FLAG.RST));
  assert.deepEqual([sent[0][7], sent.length], [5, 9998]);
  assert.deepEqual(deaf.sent.map((bytes) => [bytes[7], bytes[3]]), [[1, FLAG.RST]]);
  session[Symbol.dispose]();
  deaf.session[Symbol.dispose]();
});

Deno.test("yamux: a stream is acknowledged by its first frame, not by one of its own", async () => {
  const answered = Promise.withResolvers<void>();
  const { session, sent } = alone({
    onStream: (stream) => answered.resolve(stream.write(new Uint8Array([7]))),
  });
  session.receive(encodeFrame({ type: TYPE.WINDOW, flags: FLAG.SYN, stream: 1, length: 0 }));
  await answered.promise;
  assert.deepEqual(sent.map((bytes) => [bytes[1], bytes[3], bytes[7]]), [[TYPE.DATA, FLAG.ACK, 1]]);
  session[Symbol.dispose]();
});

/** A data frame of stream 1 whose data is `bytes`. */
const dataFrame = (flags: number, bytes: Uint8Array) =>
  encodeFrame({ type: TYPE.DATA, flags, stream: 1, length: bytes.length }, bytes);

Deno.test("yamux: where it is asked for, each small message is answered as soon as it is read", async () => {
  for (const promptly of [true, false]) {
    const streams: YamuxStream[] = [];
    const { session, sent } = alone({ promptly, onStream: (stream) => void streams.push(stream) });
    for (const [index, word] of ["SELECT", " 1"].entries()) {
      const bytes = new TextEncoder().encode(word);
      session.receive(dataFrame(index === 0 ? FLAG.SYN : 0, bytes));
      assert.deepEqual(await streams[0].read(), bytes);
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(sent.length, promptly ? index + 1 : 0);
      if (promptly) assert.deepEqual([sent[index][1], sent[index][11]], [TYPE.WINDOW, word.length]);
    }
    session[Symbol.dispose]();
  }
});

Deno.test("yamux: small messages that wait are gathered, and what came before a failure is read", async () => {
  const streams: YamuxStream[] = [];
  const { session } = alone({ onStream: (stream) => void streams.push(stream) });
  const bytes = pattern(100_000);
  session.receive(dataFrame(FLAG.SYN, bytes.subarray(0, 10)));
  for (let at = 10; at < bytes.length; at += 10) {
    session.receive(dataFrame(0, bytes.subarray(at, at + 10)));
  }
  session.lost("it broke");
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const reading = (async () => {
    for (;;) parts.push(await streams[0].read() as Uint8Array<ArrayBuffer>);
  })();
  await assert.rejects(reading, /it broke/);
  assert.deepEqual(new Uint8Array(await new Blob(parts).arrayBuffer()), bytes);
  assert.ok(parts.length < 12, `${parts.length} reads`);
});

Deno.test("yamux: what was read is put back, and what is reset here is gone", async () => {
  const streams: YamuxStream[] = [];
  const { session } = alone({ onStream: (stream) => void streams.push(stream) });
  session.receive(dataFrame(FLAG.SYN, new Uint8Array([1, 2, 3])));
  const [stream] = streams;
  const chunk = await stream.read();
  stream.unread(chunk!.subarray(1));
  assert.deepEqual([...(await stream.read())!], [2, 3]);
  session.receive(dataFrame(0, new Uint8Array([4])));
  stream.reset();
  await assert.rejects(stream.read(), /it was reset here/);
  session[Symbol.dispose]();
});

Deno.test("yamux: who asks and never reads is cut off", async () => {
  const link: Link = { send: () => new Promise(() => {}), close: () => {} };
  const session = new YamuxSession(link, { role: "server", keepAliveMs: 0 });
  const ping = encodeFrame({ type: TYPE.PING, flags: FLAG.SYN, stream: 0, length: 1 });
  for (let index = 0; index < 10_000; index++) session.receive(ping);
  assert.ok(broken(await session.closed));
});

Deno.test("yamux: an unanswered ping ends the session", async () => {
  const link: Link = { send: () => Promise.resolve(), close: () => {} };
  const session = new YamuxSession(link, { role: "server", keepAliveMs: 5 });
  assert.match(String(await session.closed), /no longer answers/);
});

Deno.test("yamux: rubbish never throws, whatever its pieces", () => {
  const header = fc.record({
    version: fc.constantFrom(0, 0, 0, 0, 1),
    type: fc.integer({ min: 0, max: 5 }),
    flags: fc.integer({ min: 0, max: 17 }),
    stream: fc.integer({ min: 0, max: 6 }),
    length: fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 0x7fffffff })),
  });
  const frames = fc.array(fc.tuple(header, fc.uint8Array({ maxLength: 40 })), { maxLength: 30 });
  fc.assert(
    fc.property(frames, fc.integer({ min: 1, max: 50 }), (list, size) => {
      const held: YamuxStream[] = [];
      const { session } = alone({ onStream: (stream) => void held.push(stream) });
      session.open();
      const bytes: number[] = [];
      for (const [{ version, ...fields }, data] of list) {
        const frame = encodeFrame(fields, data);
        frame[0] = version;
        bytes.push(...frame);
      }
      const all = new Uint8Array(bytes);
      for (let at = 0; at < all.length; at += size) session.receive(all.slice(at, at + size));
      assert.ok(held.length <= 30);
      session[Symbol.dispose]();
    }),
    { numRuns: RUNS, seed: SEED },
  );
});

Deno.test("yamux: any writes in any pieces give the same bytes", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 90_000 }), { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 70_000 }),
      async (sizes, pieces) => {
        const got = Promise.withResolvers<Uint8Array>();
        using pair = yamuxPair({
          pieces: Math.max(pieces, 500),
          server: { onStream: (stream) => void readAll(stream).then(got.resolve, got.reject) },
        });
        const stream = pair.client.open();
        const bytes = pattern(sizes.reduce((sum, size) => sum + size, 0));
        let at = 0;
        await Promise.all(sizes.map((size) => stream.write(bytes.subarray(at, at += size))));
        await stream.closeWrite();
        assert.deepEqual(await got.promise, bytes);
      },
    ),
    { numRuns: Math.min(RUNS, 2000) / 10, seed: SEED },
  );
});
