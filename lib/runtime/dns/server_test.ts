import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { eventually } from "../../../test/waits.ts";
import { Forwarder, type Upstream } from "./forward.ts";
import { query } from "./fixture_test.ts";
import { type Question, Rcode, RecordType, type Reply } from "./message.ts";
import { DnsServer, type Zone } from "./server.ts";
import { readMessage, writeMessage } from "./tcp.ts";

const HOST = "127.0.0.1";
/** Asks too. */
const OTHER = "127.0.0.2";
/** Long: a loaded machine must not meet it. */
const PATIENCE = 60_000;

async function serve(zone: Zone["resolve"], upstreams: Upstream[] = [], patience = PATIENCE) {
  // A port that is free for one transport may be taken for the other.
  for (;;) {
    try {
      return await DnsServer.listen({
        hostname: HOST,
        port: 0,
        zone: { serves: (from) => from === HOST || from === OTHER, resolve: zone },
        forwarder: new Forwarder(() => Promise.resolve(upstreams), patience),
      });
    } catch (error) {
      if ((error as { code?: string }).code !== "EADDRINUSE") throw error;
    }
  }
}

async function askUdp(port: number, message: Uint8Array): Promise<Uint8Array> {
  const socket = createSocket("udp4");
  try {
    socket.send(message, port, HOST);
    const [answer] = await once(socket, "message");
    return Uint8Array.from(answer);
  } finally {
    socket.close();
  }
}

async function askTcp(
  port: number,
  ...messages: Uint8Array[]
): Promise<(Uint8Array | undefined)[]> {
  using connection = await Deno.connect({ hostname: HOST, port });
  const answers: (Uint8Array | undefined)[] = [];
  for (const message of messages) {
    await writeMessage(connection, message);
    answers.push(await readMessage(connection));
  }
  return answers;
}

const rcode = (answer: Uint8Array) => answer[3] & 15;
const count = (answer: Uint8Array) => answer[6] << 8 | answer[7];
const many = Array.from({ length: 60 }, (_, n) => `10.4.0.${n + 2}`);
const zone = ({ name }: Question): Reply | "forward" =>
  name === "web" ? { addresses: ["10.4.0.2"] } : name === "many" ? { addresses: many } : "forward";

Deno.test("names of the zone over both transports; more than fits a datagram over one", async () => {
  await using server = await serve(zone);
  const answer = await askUdp(server.port, query("web"));
  assert.deepEqual([rcode(answer), count(answer), ...answer.slice(-4)], [0, 1, 10, 4, 0, 2]);
  const cut = await askUdp(server.port, query("many"));
  assert.ok(cut.length <= 512 && cut[2] & 2);
  const [whole, again] = await askTcp(server.port, query("many"), query("web"));
  assert.equal(count(whole!), 60);
  assert.equal(count(again!), 1);
});

Deno.test("garbage is not answered, and hinders nobody", async () => {
  await using server = await serve(zone);
  const socket = createSocket("udp4");
  for (const bytes of [[], [1, 2, 3], Array(600).fill(255)]) {
    socket.send(Uint8Array.from(bytes), server.port, HOST);
  }
  const [none] = await askTcp(server.port, new Uint8Array(3));
  assert.equal(none, undefined);
  assert.equal(rcode(await askUdp(server.port, query("web").with(5, 0))), Rcode.formatError);
  assert.equal(rcode(await askUdp(server.port, query("web").with(2, 0x10))), Rcode.notImplemented);
  assert.equal(rcode(await askUdp(server.port, query("web"))), 0);
  const closed = once(socket, "close");
  socket.close();
  await closed;
});

Deno.test("the rest is asked elsewhere, over the same transport, with the asker's id", async () => {
  const seen: string[] = [];
  await using upstream = await serve(({ name, type }) => {
    seen.push(`${name} ${type}`);
    return name === "far" ? { addresses: ["192.0.2.1"] } : { rcode: Rcode.nameError };
  });
  await using server = await serve(zone, [{ address: HOST, port: upstream.port }]);
  const far = await askUdp(server.port, query("far", RecordType.A, 513));
  assert.deepEqual([...far.slice(0, 2), ...far.slice(-4)], [2, 1, 192, 0, 2, 1]);
  assert.equal(rcode(await askUdp(server.port, query("nowhere"))), Rcode.nameError);
  const [answer] = await askTcp(server.port, query("far", RecordType.A, 514));
  assert.deepEqual([...answer!.slice(0, 2), count(answer!)], [2, 2, 1]);
  assert.deepEqual(seen, ["far 1", "nowhere 1", "far 1"]);
});

Deno.test("a resolver that cannot be asked is passed over", async () => {
  await using upstream = await serve(() => ({ addresses: ["192.0.2.1"] }));
  // No socket may be connected to it, of either transport.
  const away = { address: "255.255.255.255" };
  await using server = await serve(zone, [away, { address: HOST, port: upstream.port }]);
  assert.equal(count(await askUdp(server.port, query("far"))), 1);
  const [answer] = await askTcp(server.port, query("far"));
  assert.equal(count(answer!), 1);
});

Deno.test("without a resolver, or with one that is silent, it is a failure", async () => {
  const silent = createSocket("udp4");
  silent.bind(0, HOST);
  await once(silent, "listening");
  for (const upstreams of [[], [{ address: HOST, port: silent.address().port }]]) {
    await using server = await serve(zone, upstreams, 1);
    assert.equal(rcode(await askUdp(server.port, query("far"))), Rcode.serverFailure);
  }
  const closed = once(silent, "close");
  silent.close();
  await closed;
});

Deno.test("who asks for what nobody answers leaves room for others", async () => {
  const upstream = createSocket("udp4");
  upstream.bind(0, HOST);
  await once(upstream, "listening");
  let asked = 0;
  upstream.on("message", (message, { address, port }) => {
    asked++;
    // The name "good" is answered.
    if (message[12] !== 4) return;
    upstream.send(Uint8Array.from(message).with(2, 0x81), port, address);
  });
  const upstreams = [{ address: HOST, port: upstream.address().port }];
  const server = await serve(zone, upstreams);
  const asking = [HOST, OTHER].map(() => createSocket("udp4"));
  const [flood, other] = asking;
  try {
    for (const [index, address] of [HOST, OTHER].entries()) {
      asking[index].bind(0, address);
      await once(asking[index], "listening");
    }
    let refused: number | undefined;
    flood.on("message", (answer) => refused = rcode(answer));
    for (let id = 0; id < 65; id++) flood.send(query("nobody", 1, id), server.port, HOST);
    await eventually("one is refused", () => refused === Rcode.serverFailure);
    const answered = once(other, "message");
    other.send(query("good"), server.port, HOST);
    assert.equal(rcode((await answered)[0]), Rcode.noError);
    await eventually("all that may wait were asked", () => asked === 65);
  } finally {
    await server[Symbol.asyncDispose]();
    for (const socket of [upstream, ...asking]) socket.close();
  }
});

Deno.test("an address that is taken is refused, and nothing stays bound", async () => {
  await using server = await serve(zone);
  const options = {
    hostname: HOST,
    port: server.port,
    zone: { serves: () => true, resolve: zone },
    forwarder: new Forwarder(() => Promise.resolve([])),
  };
  await assert.rejects(DnsServer.listen(options));
});
