/** What happens in a runtime that lacks the hooks: streams without node's internals stand for its sockets. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import type { TLSSocket } from "node:tls";
import { belowTls, canLend, descriptorOf, halt, passOn, pauseBelow } from "./node_hooks.ts";

const HANDLES = [undefined, null, {}, { readStop() {}, readStart() {} }];
const bare = (handle?: unknown) => Object.assign(new PassThrough(), { _handle: handle });

Deno.test("hooks: without them no connection is lent, and none has one below it", () => {
  for (const handle of HANDLES) {
    const socket = bare(handle) as unknown as Socket;
    assert.equal(canLend(socket), false);
    assert.equal(descriptorOf(socket), undefined);
    assert.equal(belowTls(socket), undefined);
  }
});

Deno.test("hooks: a stream without them still stops, and goes on", async () => {
  const stream = bare();
  const got: string[] = [];
  stream.on("data", (bytes: Buffer) => got.push(String(bytes)));
  const goOn = halt(stream as unknown as Socket);
  stream.write("held");
  await new Promise(setImmediate);
  assert.deepEqual(got, []);
  goOn();
  await once(stream, "data");
  assert.deepEqual(got, ["held"]);
});

Deno.test("hooks: TLS without them pauses the stream below where it is known, else itself alone", async () => {
  // The events of a stream come a turn later.
  const turn = () => new Promise(setImmediate);
  for (const handle of HANDLES.slice(0, 3)) {
    for (const inner of [new PassThrough(), undefined]) {
      const socket = bare(handle);
      pauseBelow(socket as unknown as TLSSocket, inner);
      socket.resume();
      await turn();
      socket.pause();
      await turn();
      assert.deepEqual([socket.isPaused(), inner?.isPaused() ?? true], [true, true]);
      socket.resume();
      await turn();
      assert.deepEqual([socket.isPaused(), inner?.isPaused() ?? false], [false, false]);
    }
  }
});

Deno.test("hooks: bytes are passed on at once; those that nobody listens for are read later", async () => {
  const stream = new PassThrough();
  const socket = stream as unknown as Socket;
  passOn(socket, Buffer.from("a"));
  let got = "";
  stream.on("data", (bytes: Buffer) => got += bytes);
  await once(stream, "data");
  assert.equal(got, "a");
  passOn(socket, Buffer.from("b"));
  assert.equal(got, "ab");
});

Deno.test({
  name: "hooks: this runtime has them",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const taken = once(server, "connection");
    const client = connect(port, "127.0.0.1");
    const [socket] = await taken as [Socket];
    try {
      assert.equal(canLend(socket), true);
      const descriptor = descriptorOf(socket)!;
      assert.match(await Deno.readLink(`/proc/self/fd/${descriptor}`), /^socket:/);
      const { close } = await import("../sys/fd.ts");
      close(descriptor);
      let count = 0;
      socket.on("data", (bytes: Buffer) => count += bytes.length);
      const goOn = halt(socket);
      const all = Buffer.alloc(1 << 20);
      const sent = new Promise<void>((resolve) => client.write(all, () => resolve()));
      for (let n = 0; n < 50; n++) await new Promise(setImmediate);
      assert.deepEqual([count, socket.readableLength], [0, 0]);
      goOn();
      await sent;
      while (count < all.length) await once(socket, "data");
    } finally {
      client.destroy();
      socket.destroy();
      server.close();
      await once(server, "close");
    }
  },
});
