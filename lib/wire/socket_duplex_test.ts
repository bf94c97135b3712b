import assert from "node:assert/strict";
import { connect, createServer, type Socket } from "node:net";
import { once } from "node:events";
import { SvcError } from "../base/errors.ts";
import { connDuplex, type Duplex } from "./duplex.ts";
import { socketDuplex } from "./socket_duplex.ts";
import { pattern, readAll } from "./testing.ts";

interface Ends extends AsyncDisposable {
  /** Of node. */
  near: Duplex;
  /** Of Deno. */
  far: Duplex;
}

async function ends(): Promise<Ends> {
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const [[socket], conn] = await Promise.all([
    once(server, "connection") as Promise<[Socket]>,
    Deno.connect({ hostname: "127.0.0.1", port }),
  ]);
  const near = socketDuplex(socket);
  const far = connDuplex(conn);
  return {
    near,
    far,
    async [Symbol.asyncDispose]() {
      near.reset();
      far.reset();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

Deno.test("a socket: each direction ends by itself, whichever ends first", async () => {
  for (const nearFirst of [true, false]) {
    await using pair = await ends();
    const [one, other] = nearFirst ? [pair.near, pair.far] : [pair.far, pair.near];
    const there = pattern(300_000, 3);
    const back = pattern(200_000, 5);
    const sent = one.write(there).then(() => one.closeWrite());
    assert.deepEqual(await readAll(other), there);
    await sent;
    await one.closeWrite();
    await assert.rejects(one.write(there), SvcError);
    const answered = other.write(back).then(() => other.closeWrite());
    assert.deepEqual(await readAll(one), back);
    await answered;
    assert.equal(await one.read(), undefined);
  }
});

Deno.test("a socket: a reset in the middle is an error at the other side, after both ends it is none", async () => {
  await using broken = await ends();
  const waiting = assert.rejects(broken.near.read(), SvcError);
  broken.near.reset();
  await waiting;
  await assert.rejects(broken.near.read(), SvcError);
  await assert.rejects(broken.near.write(new Uint8Array(1)), SvcError);
  await broken.near.closeWrite();
  await assert.rejects(broken.far.read(), Deno.errors.ConnectionReset);
  await broken.near.closed;

  await using whole = await ends();
  await whole.far.write(pattern(5));
  await whole.far.closeWrite();
  await readAll(whole.near);
  await whole.near.write(pattern(100_000));
  await whole.near.closeWrite();
  whole.near.reset();
  assert.equal((await readAll(whole.far)).length, 100_000);
});

Deno.test("a socket: one that takes nothing is waited for, and nothing piles up", async () => {
  const server = createServer({ allowHalfOpen: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  const [socket] = await once(server, "connection") as [Socket];
  const near = socketDuplex(socket);
  let written = 0;
  // Until no write ends any more: what the kernel takes is full.
  const writing = (async () => {
    for (;; written++) await near.write(pattern(64 * 1024));
  })();
  const over = assert.rejects(writing, SvcError);
  for (let before = -1; before !== written || written === 0;) {
    before = written;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  assert.ok(socket.writableLength <= 2 * 64 * 1024, String(socket.writableLength));
  client.destroy();
  near.reset();
  await over;
  await new Promise((resolve) => server.close(resolve));
});
