import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { createClient } from "../../client/client.ts";
import { servicesOf } from "../../client/forward.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { HELLO_HEADER, writeHello } from "../../wire/attached/hello.ts";
import { duplexPair, pattern, readAll } from "../../wire/testing.ts";
import { encodeFrame, FLAG, INITIAL_WINDOW, TYPE } from "../../wire/yamux/frame.ts";
import type { Answered } from "../activity/entry.ts";
import type { ForwardTimes } from "../deps.ts";
import { startTestServer } from "../testing.ts";

/** Bytes of one direction that may be on the way. */
const STREAM_WINDOW = 1 << 20;

const text = (bytes?: Uint8Array) => bytes && new TextDecoder().decode(bytes);
const bytes = (words: string) => new TextEncoder().encode(words);

/** Waits for what is not told. */
async function until(what: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !what();) {
    assert(Date.now() < deadline, "did not happen");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A server with one deployment, `web`; each dial gives a stream whose other end is in `dialled`. */
async function forwardServer(
  { stream, times }: { stream?: (ours: Duplex) => Duplex; times?: Partial<ForwardTimes> } = {},
) {
  const dialled: Duplex[] = [];
  const asked: string[] = [];
  const noted: Answered[] = [];
  const dial: DeployBackend["dial"] = (name, port, protocol) => {
    asked.push(`${name}:${port}/${protocol}`);
    if (name !== "web") throw new SvcError("not_found", `Cannot connect: no deployment ${name}`);
    if (port === 1) throw new SvcError("upstream_failed", "Cannot connect to port 1: refused");
    const [theirs, ours] = duplexPair();
    dialled.push(theirs);
    return Promise.resolve(stream?.(ours) ?? ours);
  };
  const server = await startTestServer({
    backend: { dial },
    deps: { forward: times },
    note: (answered) => noted.push(answered),
  });
  /** A client of its own making, which sends what it likes. */
  const raw = async () => {
    const url = `${server.base}/.svc/v1/deployments/web/forward?port=80`;
    const headers = { [HELLO_HEADER]: writeHello(["port"]) };
    const socket = new WebSocket(url.replace(/^http/, "ws"), { headers });
    socket.binaryType = "arraybuffer";
    const messages: (string | ArrayBuffer)[] = [];
    socket.onmessage = ({ data }) => messages.push(data);
    const closed = new Promise<CloseEvent>((resolve) => socket.onclose = resolve);
    await new Promise((resolve) => socket.onopen = resolve);
    return { socket, messages, closed };
  };
  return {
    raw,
    server,
    dialled,
    asked,
    noted,
    services: servicesOf(createClient({ server: server.base })),
  };
}

Deno.test("forward: bytes travel both ways, and each direction ends by itself", async () => {
  const { server, dialled, services, asked, noted } = await forwardServer();
  await using _ = server;
  const stream = await services.dial("web", 80, "tcp");
  const [instance] = dialled;
  await stream.write(bytes("question"));
  assert.equal(text(await instance.read()), "question");
  await stream.closeWrite();
  assert.equal(await instance.read(), undefined);
  const answer = pattern(5_000_000);
  await Promise.all([
    instance.write(answer).then(() => instance.closeWrite()),
    readAll(stream).then((read) => assert.deepEqual(read, answer)),
  ]);
  await until(() => noted.length === 1);
  assert.deepEqual(asked, ["web:80/tcp"]);
  const [{ context, status }] = noted;
  assert.deepEqual([context.about, context.outcome, status], ["web:80/tcp", undefined, 101]);
});

Deno.test("forward: what stands in the way of a dial is an ordinary problem", async () => {
  const { server, services } = await forwardServer();
  await using _ = server;
  await assert.rejects(services.dial("wbe", 80, "tcp"), { code: "not_found" });
  await assert.rejects(services.dial("web", 1, "tcp"), {
    code: "upstream_failed",
    message: "Cannot connect to port 1: refused",
  });
  for (
    const query of ["", "?port=0", "?port=65536", "?port=x", "?port=80&protocol=sctp", "?prot=1"]
  ) {
    const response = await fetch(`${server.base}/.svc/v1/deployments/web/forward${query}`);
    assert.equal(response.status, 400, query);
    await response.body?.cancel();
  }
});

/** Lets everything happen that happens by itself. */
async function settled(value: () => number): Promise<number> {
  for (let before = -1, same = 0; same < 20;) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    same = value() === before ? same + 1 : 0;
    before = value();
  }
  return value();
}

Deno.test("forward: a workload that sends without end waits for a client that does not read", async () => {
  let given = 0;
  const { server, services } = await forwardServer({
    stream: (ours) => ({
      ...ours,
      read: () => Promise.resolve(new Uint8Array(50_000)).finally(() => given += 50_000),
    }),
  });
  await using _ = server;
  const stream = await services.dial("web", 80, "tcp");
  assert(await settled(() => given) <= STREAM_WINDOW + 2 * 50_000);
  // It goes on with whoever reads.
  for (let read = 0; read < 3 * STREAM_WINDOW;) read += (await stream.read())!.length;
  assert(await settled(() => given) <= 4 * STREAM_WINDOW + 3 * 50_000);
  stream.reset();
});

Deno.test("forward: a client that sends without end waits for a workload that does not read", async () => {
  let refuse: (error: Error) => void;
  const { server, services, noted } = await forwardServer({
    stream: (ours) => ({
      ...ours,
      write: () => new Promise((_, reject) => refuse = reject),
      reset: () => {
        ours.reset();
        refuse(new Error("reset"));
      },
    }),
  });
  await using _ = server;
  const stream = await services.dial("web", 80, "tcp");
  let taken = 0;
  const writing = (async () => {
    for (;; taken += 50_000) await stream.write(new Uint8Array(50_000));
  })();
  assert(await settled(() => taken) <= STREAM_WINDOW + 50_000);
  stream.reset();
  await assert.rejects(writing, { code: "upstream_failed" });
  // The server holds nothing for it any more.
  await until(() => noted.length === 1);
  assert.equal(await server.lifecycle.idle(30_000), true);
});

Deno.test("forward: what a client must not send ends its connection and lets go of the workload", async () => {
  let resets = 0;
  const { server, raw, noted } = await forwardServer({
    stream: (ours) => ({ ...ours, reset: () => (resets++, ours.reset()) }),
  });
  await using _ = server;
  const data = (length: number, flags = 0) =>
    encodeFrame({ type: TYPE.DATA, flags, stream: 2, length }, new Uint8Array(length));
  const wrong: [RegExp, (socket: WebSocket) => void][] = [
    [/text that is not an error/, (socket) => socket.send("hello")],
    [/frame version 104 is unknown/, (socket) => socket.send(bytes("hello, server"))],
    [/more than it may/, (socket) => socket.send(data(INITIAL_WINDOW + 1))],
    [/data comes after the end/, (socket) => {
      socket.send(data(0, FLAG.FIN));
      socket.send(data(1));
    }],
  ];
  for (const [why, send] of wrong) {
    const { socket, messages, closed } = await raw();
    await until(() => messages.length >= 2);
    send(socket);
    const { code, reason } = await closed;
    assert.equal(code, 4000);
    assert.match(reason, why);
    await until(() => resets > 0);
    resets = 0;
  }
  await until(() => noted.length === wrong.length);
  assert.deepEqual(noted.map(({ context }) => context.outcome), Array(4).fill("cancelled"));
});

Deno.test("forward: whoever breaks first is told of, and the other side learns of it", async () => {
  const { server, dialled, services, noted } = await forwardServer({
    stream: (ours) => ({ ...ours, read: () => ours.read().catch(broken) }),
  });
  const broken = () => {
    throw new Error("connection reset by peer");
  };
  await using _ = server;
  const first = await services.dial("web", 80, "tcp");
  dialled[0].reset();
  await assert.rejects(first.read(), {
    code: "upstream_failed",
    message: "Cannot go on with port 80 of web: connection reset by peer",
  });
  await until(() => noted.length === 1);
  const second = await services.dial("web", 80, "tcp");
  second.reset();
  await assert.rejects(readAll(dialled[1]), { code: "upstream_failed" });
  await until(() => noted.length === 2);
  // A client that had ended, and then goes away while the workload says nothing.
  const third = await services.dial("web", 80, "tcp");
  await third.closeWrite();
  assert.equal(await dialled[2].read(), undefined);
  third.reset();
  await until(() => noted.length === 3);
  assert.deepEqual(noted.map(({ context }) => context.outcome), [
    "upstream_failed",
    "cancelled",
    "cancelled",
  ]);
  assert.equal(await server.lifecycle.idle(30_000), true);
});

Deno.test("forward: a server that shuts down says so, and waits for nobody", async () => {
  const { server, dialled, services } = await forwardServer();
  await using _ = server;
  const stream = await services.dial("web", 80, "tcp");
  server.lifecycle.drain();
  await assert.rejects(stream.read(), {
    code: "unavailable",
    message: "Cannot forward to web: the server is shutting down",
  });
  await assert.rejects(readAll(dialled[0]), { code: "upstream_failed" });
  assert.equal(await server.lifecycle.idle(30_000), true);
});

Deno.test("forward: a client that gives no sign of life is let go", async () => {
  const { server, dialled, raw } = await forwardServer({ times: { beatMs: 20 } });
  await using _ = server;
  const { closed } = await raw();
  assert.match((await closed).reason, /no longer answers/);
  await assert.rejects(readAll(dialled[0]), { code: "upstream_failed" });
});

Deno.test("forward: UDP keeps datagrams apart, empty ones too; a silent flow ends in order", async () => {
  const { server, dialled, services, noted } = await forwardServer();
  await using _ = server;
  const flow = await services.dial("web", 53, "udp");
  for (const words of ["one", "", "three"]) {
    await flow.write(bytes(words));
    // The fake's streams carry no empty datagrams.
    if (words) assert.equal(text(await dialled[0].read()), words);
    await dialled[0].write(bytes(`${words}!`));
    assert.equal(text(await flow.read()), `${words}!`);
  }
  flow.reset();
  await until(() => noted.length === 1);

  const short = await forwardServer({ times: { idleMs: 1 } });
  await using _short = short.server;
  const idle = await short.services.dial("web", 53, "udp");
  assert.equal(await idle.read(), undefined);
  await until(() => short.noted.length === 1);
  assert.deepEqual(short.noted[0].context.outcome, undefined);
  await assert.rejects(readAll(short.dialled[0]), { code: "upstream_failed" });
});

Deno.test("forward: who gives up while it is dialled leaves nothing open", async () => {
  const { server, services, dialled } = await forwardServer();
  await using _ = server;
  const abort = new AbortController();
  const dialling = services.dial("web", 80, "tcp", abort.signal);
  abort.abort(new Error("given up"));
  await assert.rejects(dialling, { message: "given up" });
  await until(() => dialled.length === 1);
  await assert.rejects(readAll(dialled[0]), { code: "upstream_failed" });
});
