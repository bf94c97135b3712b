import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { pattern, readAll } from "./testing.ts";
import { dialTcp, dialUdp } from "./dial.ts";

const bytes = (words: string) => new TextEncoder().encode(words);
const text = (data?: Uint8Array) => new TextDecoder().decode(data);

/** A workload in this process. */
async function listener(serve: (socket: Socket) => void) {
  const server = createServer({ allowHalfOpen: true }, serve);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as { port: number }).port,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}

Deno.test("dialTcp: the end of what is sent leaves the answer to come", async () => {
  await using workload = await listener((socket) => {
    let asked = 0;
    socket.on("data", (data) => asked += data.length);
    socket.on("end", () => socket.end(`${asked} bytes`));
  });
  const stream = await dialTcp("127.0.0.1", workload.port);
  await stream.write(pattern(2_000_000));
  await stream.closeWrite();
  assert.equal(text(await readAll(stream)), "2000000 bytes");
  stream.reset();
});

Deno.test("dialTcp: a reset is one for the workload, and the other way round", async () => {
  const sockets: Socket[] = [];
  await using workload = await listener((socket) => sockets.push(socket));
  const connected = async () => {
    const stream = await dialTcp("127.0.0.1", workload.port);
    await stream.write(bytes("x"));
    while (sockets.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    return { stream, socket: sockets.pop()! };
  };
  const first = await connected();
  const broken = once(first.socket, "error");
  first.socket.resume();
  first.stream.reset();
  assert.equal((await broken)[0].code, "ECONNRESET");
  const second = await connected();
  second.socket.resetAndDestroy();
  await assert.rejects(second.stream.read(), { code: "upstream_failed" });
});

Deno.test("dialTcp: nobody there, and a caller that gave up", async () => {
  await assert.rejects(dialTcp("127.0.0.1", 1), {
    code: "upstream_failed",
    message: "Cannot connect to port 1 of the instance at 127.0.0.1: nothing listens there",
  });
  const reason = new Error("given up");
  await assert.rejects(dialTcp("127.0.0.1", 1, AbortSignal.abort(reason)), reason);
  const abort = new AbortController();
  const dialling = dialTcp("127.0.0.1", 1, abort.signal);
  abort.abort(reason);
  await assert.rejects(dialling, reason);
});

Deno.test("dialUdp: datagrams both ways; what nobody reads is dropped; a reset ends it", async () => {
  const workload = createSocket("udp4");
  workload.on("message", (data, { port }) => workload.send(data, port, "127.0.0.1"));
  await new Promise<void>((resolve) => workload.bind(0, "127.0.0.1", resolve));
  const flow = await dialUdp("127.0.0.1", workload.address().port);
  // Any datagram may be lost: each is sent until one like it has come.
  const again = setInterval(() => void flow.write(bytes("hello")), 200);
  await flow.write(bytes("hello"));
  assert.equal(text(await flow.read()), "hello");
  clearInterval(again);
  for (let sent = 0; sent < 2000; sent++) await flow.write(new Uint8Array(1000));
  const reading = readAll(flow);
  flow.reset();
  flow.reset();
  assert((await reading).length <= 1 << 20);
  await flow.write(bytes("nobody"));
  workload.close();
});
