import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { duplexPair, pattern, readAll } from "../../wire/testing.ts";
import { forwardPort, type PortForwardOptions } from "./port_forward.ts";
import type { Services } from "./services.ts";

const bytes = (words: string) => new TextEncoder().encode(words);
const text = (data?: Uint8Array) => new TextDecoder().decode(data);

/** Waits for what is not told. */
async function until(what: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !what();) {
    assert(Date.now() < deadline, "did not happen");
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** A workload in memory: `serve` has each connection's other end. */
function memory(serve: (stream: Duplex) => void, refusals = 0) {
  const asked: string[] = [];
  const services: Services = {
    dial(name, port, protocol) {
      asked.push(`${name}:${port}/${protocol}`);
      if (asked.length <= refusals) {
        return Promise.reject(new SvcError("upstream_failed", "Cannot connect: refused"));
      }
      const [theirs, ours] = duplexPair();
      serve(theirs);
      return Promise.resolve(ours);
    },
    list: () => Promise.resolve([]),
  };
  return { services, asked };
}

/** Says everything again, and ends after the other side did. */
async function echo(stream: Duplex): Promise<void> {
  try {
    for (let part = await stream.read(); part; part = await stream.read()) await stream.write(part);
    await stream.closeWrite();
  } catch {
    // the connection was reset
  }
}

async function open(services: Services, more: Partial<PortForwardOptions> = {}) {
  const errors: SvcError[] = [];
  const forward = await forwardPort({
    services,
    name: "web",
    port: 80,
    protocol: "tcp",
    address: "127.0.0.1",
    local: 0,
    onError: (error) => void errors.push(error),
    ...more,
  });
  return { forward, errors };
}

const to = (port: number) => connect({ port, host: "127.0.0.1", allowHalfOpen: true });

/** What is answered up to the end; throws what broke the connection. */
async function answer(socket: Socket): Promise<Uint8Array> {
  const parts: Buffer[] = [];
  for await (const part of socket) parts.push(part);
  return new Uint8Array(Buffer.concat(parts));
}

Deno.test("port-forward: many connections at once, each with ends of its own", async () => {
  const { services, asked } = memory(echo);
  const { forward, errors } = await open(services);
  await using _ = forward;
  await Promise.all(Array.from({ length: 20 }, async (_, index) => {
    const sent = pattern(300_000, index + 1);
    const socket = to(forward.local);
    // The end of what is sent comes long before that of the answer.
    socket.end(sent);
    assert.deepEqual(await answer(socket), sent);
  }));
  assert.deepEqual(asked, Array(20).fill("web:80/tcp"));
  assert.deepEqual(errors, []);
});

Deno.test("port-forward: a connection that cannot be made is cut and told; the next is made", async () => {
  const { services } = memory(echo, 1);
  const { forward, errors } = await open(services);
  await using _ = forward;
  await assert.rejects(answer(to(forward.local)), { code: "ECONNRESET" });
  assert.deepEqual(errors.map(({ message }) => message), ["Cannot connect: refused"]);
  const socket = to(forward.local);
  socket.end("again");
  assert.equal(text(await answer(socket)), "again");
  assert.equal(errors.length, 1);
});

Deno.test("port-forward: a connection that breaks there breaks here, and does not just end", async () => {
  const { services } = memory(async (stream) => {
    await stream.read();
    await stream.write(bytes("the half of"));
    await stream.read();
    stream.reset();
  });
  const { forward, errors } = await open(services);
  await using _ = forward;
  const socket = to(forward.local);
  socket.write("question");
  const [first] = await once(socket, "data");
  assert.equal(text(first), "the half of");
  socket.write("and?");
  await assert.rejects(answer(socket), { code: "ECONNRESET" });
  await until(() => errors.length === 1);
  assert.equal(errors[0].code, "upstream_failed");
});

Deno.test("port-forward: who goes away here is not a failure, and lets go of the workload", async () => {
  const ends: Duplex[] = [];
  const { services } = memory((stream) => ends.push(stream));
  const { forward, errors } = await open(services);
  await using _ = forward;
  const socket = to(forward.local);
  socket.write("x");
  await until(() => ends.length === 1);
  assert.equal(text(await ends[0].read()), "x");
  socket.resetAndDestroy();
  await assert.rejects(readAll(ends[0]), { code: "upstream_failed" });
  assert.deepEqual(errors, []);
});

Deno.test("port-forward: its end cuts what is open, one that is still being dialled too", async () => {
  let dialling = false;
  const { services } = memory(() => {});
  const slow: Services = {
    ...services,
    dial: (_name, port, _protocol, signal) => {
      if (port === 80) return services.dial("web", 80, "tcp");
      dialling = true;
      return new Promise((_, reject) =>
        signal!.addEventListener("abort", () => reject(signal!.reason))
      );
    },
  };
  const first = await open(slow);
  const second = await open(slow, { port: 81 });
  const sockets = [to(first.forward.local), to(second.forward.local)];
  await Promise.all(sockets.map((socket) => once(socket, "connect")));
  await until(() => dialling);
  const cut = sockets.map((socket) => assert.rejects(answer(socket), { code: "ECONNRESET" }));
  await first.forward[Symbol.asyncDispose]();
  await second.forward[Symbol.asyncDispose]();
  await Promise.all(cut);
  assert.deepEqual([...first.errors, ...second.errors], []);
});

Deno.test("port-forward: a local port that is taken, and an address that is not here", async () => {
  const { services } = memory(echo);
  for (const protocol of ["tcp", "udp"] as const) {
    const { forward } = await open(services, { protocol });
    await using _ = forward;
    await assert.rejects(open(services, { protocol, local: forward.local }), {
      code: "port_in_use",
      message: `Cannot listen on 127.0.0.1:${forward.local}: the port is taken`,
    });
    await assert.rejects(open(services, { protocol, address: "192.0.2.1" }), {
      code: "argument_invalid",
      message: "Cannot listen on 192.0.2.1:0: this machine does not have the address",
    });
  }
});

interface Peer {
  ask(words: string): Promise<string>;
  close(): void;
}

/** A local program that asks by UDP, as often as it takes. */
function peer(port: number): Peer {
  const socket = createSocket("udp4");
  const replies: string[] = [];
  socket.on("message", (reply) => replies.push(text(reply)));
  return {
    async ask(words) {
      const answered = () => replies.find((reply) => reply.endsWith(` ${words}`));
      const send = () => socket.send(words, port, "127.0.0.1");
      const again = setInterval(send, 1000);
      send();
      await until(() => answered() !== undefined);
      clearInterval(again);
      return answered()!;
    },
    close: () => socket.close(),
  };
}

Deno.test("port-forward: each local UDP peer has a flow of its own; a silent one ends", async () => {
  const flows: Duplex[] = [];
  const { services, asked } = memory((stream) => {
    const number = flows.push(stream);
    void (async () => {
      for (let data = await stream.read(); data; data = await stream.read()) {
        await stream.write(bytes(`${number} ${text(data)}`));
      }
    })().catch(() => {/* the flow has ended */});
  });
  const { forward, errors } = await open(services, { protocol: "udp", port: 53, idleMs: 300_000 });
  const [a, b] = [peer(forward.local), peer(forward.local)];
  assert.equal(await a.ask("one"), "1 one");
  assert.equal(await b.ask("two"), "2 two");
  assert.equal(await a.ask("three"), "1 three");
  assert.deepEqual(asked, ["web:53/udp", "web:53/udp"]);
  // What broke is told, and the next datagram opens a new flow.
  flows[0].reset();
  await until(() => errors.length === 1);
  assert.equal(await a.ask("four"), "3 four");
  for (const each of [a, b]) each.close();
  await forward[Symbol.asyncDispose]();

  const ends: Duplex[] = [];
  const idle = await open(memory((stream) => ends.push(stream)).services, {
    protocol: "udp",
    idleMs: 1,
  });
  await using _ = idle.forward;
  const socket = createSocket("udp4");
  const again = setInterval(() => socket.send("x", idle.forward.local, "127.0.0.1"), 100);
  await until(() => ends.length >= 2);
  clearInterval(again);
  socket.close();
  await assert.rejects(readAll(ends[0]), { code: "upstream_failed" });
  assert.deepEqual(idle.errors, []);
});

Deno.test("port-forward: no number of UDP peers is too much", async () => {
  const ends: Duplex[] = [];
  const seen = new Set<string>();
  const { services } = memory((stream) => {
    ends.push(stream);
    void stream.read().then((data) => seen.add(text(data)));
  });
  const { forward, errors } = await open(services, { protocol: "udp" });
  await using _ = forward;
  const sockets: ReturnType<typeof createSocket>[] = [];
  for (let at = 0; at < 600; at++) {
    const socket = createSocket("udp4");
    sockets.push(socket);
    const send = () => socket.send(String(at), forward.local, "127.0.0.1");
    const again = setInterval(send, 1000);
    send();
    await until(() => seen.has(String(at)));
    clearInterval(again);
  }
  for (const socket of sockets) socket.close();
  // The first had to go.
  assert.equal((await readAll(ends[0])).length, 0);
  assert.deepEqual(errors, []);
});
