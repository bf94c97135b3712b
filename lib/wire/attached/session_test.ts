import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { readAll } from "../testing.ts";
import { encodeFrame, FLAG, TYPE } from "../yamux/frame.ts";
import type { YamuxStream } from "../yamux/stream.ts";
import { agree, readHello, VERSIONS, writeHello } from "./hello.ts";
import { isKind, KINDS } from "./kinds.ts";
import { Attached, type AttachedOptions, isLost } from "./session.ts";

const text = (bytes?: Uint8Array) => new TextDecoder().decode(bytes);
const bytes = (words: string) => new TextEncoder().encode(words);
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** One end of a WebSocket: what was sent, and where it goes. */
class Socket {
  readyState: number = WebSocket.OPEN;
  bufferedAmount = 0;
  sent: (Uint8Array | string)[] = [];
  closed: { code: number; reason: string } | undefined;
  onSend: (data: Uint8Array | string) => void = () => {};
  onClose: (event: { code: number; reason: string }) => void = () => {};

  send(data: Uint8Array | string): void {
    // As the standard has it, what is sent is a copy.
    const sent = typeof data === "string" ? data : data.slice();
    this.sent.push(sent);
    this.onSend(sent);
  }

  close(code = 1005, reason = ""): void {
    this.readyState = WebSocket.CLOSING;
    this.closed = { code, reason };
    this.onClose(this.closed);
  }
}

type Options = Partial<AttachedOptions>;

function end(role: "caller" | "server", options: Options = {}) {
  const socket = new Socket();
  const session = new Attached({ role, attempt: "test", beatMs: 0, ...options });
  const open = () => session.opened(socket as unknown as WebSocket);
  return { socket, session, open };
}

/** Two ends; what one sends comes to the other in a later turn, in order. */
function pair(options: { caller?: Options; server?: Options } = {}) {
  const caller = end("caller", options.caller);
  const hello = readHello(Attached.hello(options.caller ?? {}))!;
  const server = end("server", { hello, ...options.server });
  const join = (from: typeof caller, to: typeof caller) => {
    let last = Promise.resolve();
    const later = (act: () => void) => void (last = last.then(turn).then(act));
    from.socket.onSend = (data) => later(() => to.session.receive(data));
    from.socket.onClose = (event) =>
      later(() => {
        to.socket.readyState = WebSocket.CLOSED;
        to.session.closedBy(event);
      });
  };
  join(caller, server);
  join(server, caller);
  caller.open();
  server.open();
  return { caller, server };
}

/** Keeps every stream of a kind. */
function keeping(kind: "port" | "ingress" | "deploy") {
  const streams: YamuxStream[] = [];
  const fields: unknown[] = [];
  const take = (stream: YamuxStream, said: unknown) => {
    streams.push(stream);
    fields.push(said);
  };
  return { streams, fields, takes: { [kind]: take } };
}

const until = async (what: () => boolean) => {
  while (!what()) await turn();
};

Deno.test("attached: either end opens streams, whose first line says what they are", async () => {
  const [callers, servers] = [keeping("port"), keeping("ingress")];
  const { caller, server } = pair({
    caller: { takes: callers.takes },
    server: { takes: servers.takes },
  });
  await caller.session.ready;
  const up = caller.session.open("ingress", { host: "a" });
  await up.write(bytes("question"));
  server.session.open("port", { port: 80 });
  await until(() => callers.streams.length + servers.streams.length === 2);
  assert.deepEqual([servers.fields, callers.fields], [[{ host: "a" }], [{ port: 80 }]]);
  assert.equal(text(await servers.streams[0].read()), "question");
  // Half-closes come through by themselves, both ways.
  await up.closeWrite();
  assert.equal(await servers.streams[0].read(), undefined);
  await servers.streams[0].write(bytes("answer"));
  await servers.streams[0].closeWrite();
  assert.equal(text(await readAll(up)), "answer");
  await caller.session.close();
  assert.equal(await server.session.closed, undefined);
  assert.equal(caller.socket.closed?.code, 1000);
});

Deno.test("attached: a caller's stream is announced with its first bytes, a server's at once", async () => {
  const { caller, server } = pair({
    caller: { takes: keeping("port").takes },
    server: { takes: keeping("ingress").takes },
  });
  await caller.session.ready;
  const stream = caller.session.open("ingress");
  await turn();
  assert.equal(caller.socket.sent.length, 0);
  await stream.write(bytes("GET /"));
  assert.equal(caller.socket.sent.length, 1);
  assert.equal(text(caller.socket.sent[0] as Uint8Array).slice(12), '{"kind":"ingress"}\nGET /');
  server.session.open("port");
  await turn();
  assert.equal(typeof server.socket.sent[0], "string");
  const sent = server.socket.sent.slice(1).map((one) => text(one as Uint8Array).slice(12));
  assert.deepEqual(sent.filter((one) => one !== ""), ['{"kind":"port"}\n']);
});

Deno.test("attached: versions are settled by both ends, the newest that both speak", () => {
  const settle = (oldest: number, newest: number, own: { oldest: number; newest: number }) =>
    agree({ oldest, newest }, { attempt: "test", who: "client", own });
  assert.equal(settle(1, 1, { oldest: 1, newest: 1 }), 1);
  assert.equal(settle(1, 3, { oldest: 2, newest: 5 }), 3);
  assert.equal(settle(2, 9, { oldest: 1, newest: 2 }), 2);
  assert.throws(() => settle(1, 2, { oldest: 3, newest: 4 }), {
    code: "unsupported",
    message:
      "Cannot test: the client speaks versions 1 to 2 of attached sessions, not versions 3 to 4",
    help: "the client is the older one: update svc there",
  });
  assert.throws(() => settle(5, 5, { oldest: 3, newest: 4 }), {
    help: "the server is the older one: update svc there",
  });
});

Deno.test("attached: a hello is read with what is new in it left out, and rubbish is none", () => {
  const hello = writeHello(["port"], { name: "wéb", token: "t" });
  assert.match(hello, /^[ -~]*$/);
  assert.deepEqual(readHello(hello), {
    ...VERSIONS,
    takes: ["port"],
    resume: { name: "wéb", token: "t" },
  });
  const newer = '{"oldest":1,"newest":7,"takes":["port","teleport","__proto__"],"mood":"good"}';
  assert.deepEqual(readHello(newer), { oldest: 1, newest: 7, takes: ["port"] });
  const rubbish = [
    ...[
      "",
      "{",
      "null",
      "[]",
      "7",
      '{"oldest":1,"newest":1}',
      '{"oldest":"1","newest":1,"takes":[]}',
    ],
    '{"oldest":1,"newest":1.5,"takes":[]}',
    '{"oldest":1,"newest":1,"takes":[],"resume":{"name":"web"}}',
    `{"oldest":1,"newest":1,"takes":["${"x".repeat(9000)}"]}`,
  ];
  for (const one of rubbish) assert.equal(readHello(one), undefined, one.slice(0, 40));
});

Deno.test("attached: a server of another time is a clear error, and is sent nothing", async () => {
  const answers: [Uint8Array | string, RegExp][] = [
    [
      '{"oldest":2,"newest":3,"takes":[]}',
      /the server speaks versions 2 to 3 of attached sessions, not version 1/,
    ],
    ['{"oldest":0,"newest":0,"takes":[]}', /the server speaks version 0 /],
    ["hello", /the server does not speak attached sessions/],
    // A frame of an exec session as it was before there were attached ones.
    [new Uint8Array([3, 123, 125]), /the server does not speak attached sessions/],
  ];
  for (const [answer, why] of answers) {
    const { session, socket, open } = end("caller");
    open();
    session.receive(answer);
    await assert.rejects(session.ready, { code: "unsupported", message: why });
    assert.equal(socket.closed?.code, 4000);
    assert.ok(socket.sent.every((one) => typeof one === "string"));
  }
  const told = end("caller");
  told.open();
  told.session.receive('{"error":{"code":"of_next_year","detail":"Cannot: no","help":"wait"}}');
  await assert.rejects(told.session.ready, { code: "upstream_failed", message: "Cannot: no" });
});

Deno.test("attached: a kind that the other side does not take is refused here, and reset there", async () => {
  const { caller, server } = pair({ server: { takes: keeping("deploy").takes } });
  await caller.session.ready;
  assert.deepEqual(
    Object.keys(KINDS).filter((kind) => isKind(kind) && caller.session.takes(kind)),
    ["deploy"],
  );
  assert.throws(() => caller.session.open("ingress"), {
    code: "unsupported",
    message: "Cannot test: the server takes no stream ingress",
  });
  assert.throws(() => server.session.open("port"), { code: "unsupported" });
  // A caller that opens what was not offered, or says nothing that can be read.
  for (
    const head of [
      '{"kind":"ingress"}',
      '{"kind":"__proto__"}',
      "{}",
      "null",
      "[",
      "x".repeat(5000),
    ]
  ) {
    const raw = encodeFrame(
      { type: TYPE.DATA, flags: FLAG.SYN, stream: 101 + 2 * head.length, length: head.length + 1 },
      bytes(`${head}\n`),
    );
    const before = server.socket.sent.length;
    server.session.receive(raw);
    await until(() => server.socket.sent.length > before);
    const last = server.socket.sent.at(-1) as Uint8Array;
    assert.ok(last[3] & FLAG.RST, head.slice(0, 20));
  }
});

Deno.test("attached: what fails is told behind what was sent before it", async () => {
  const kept = keeping("port");
  const { caller, server } = pair({ caller: { takes: kept.takes } });
  await caller.session.ready;
  const stream = server.session.open("port");
  await stream.write(bytes("so far"));
  const error = new SvcError("unavailable", `Cannot go on: ${"ä".repeat(200)}`, {
    help: "wait",
    detail: { since: 1 },
  });
  server.session.fail(error);
  await until(() => kept.streams.length === 1);
  assert.equal(text(await kept.streams[0].read()), "so far");
  await assert.rejects(kept.streams[0].read(), {
    code: "unavailable",
    help: "wait",
    detail: { since: 1 },
  });
  assert.equal(await server.session.closed, error);
  const { code, reason } = server.socket.closed!;
  assert.equal(code, 4000);
  assert.match(reason, /^ä+$/);
  assert.ok(bytes(reason).length <= 123);
});

Deno.test("attached: what fails before the socket is open is told once it is", () => {
  const late = end("server", { hello: readHello(writeHello([]))! });
  late.session.fail(new SvcError("unavailable", "Cannot go on: shutting down"));
  late.open();
  assert.match(late.socket.sent.at(-1) as string, /shutting down/);
  assert.equal(late.socket.closed?.code, 4000);
});

Deno.test("attached: a connection that is lost, or dropped, breaks what waits", async () => {
  const { caller, server } = pair({ server: { takes: keeping("deploy").takes } });
  await caller.session.ready;
  const stream = caller.session.open("deploy");
  await stream.write(bytes("x"));
  const reading = assert.rejects(stream.read(), (error) => {
    assert.ok(isLost(error));
    assert.match((error as Error).message, /the session was resumed/);
    return true;
  });
  server.session.drop("the session was resumed");
  await reading;
  assert.ok(isLost(await caller.session.closed) && isLost(await server.session.closed));

  const cut = end("caller");
  cut.open();
  cut.session.closedBy({ code: 1006, reason: "" });
  await assert.rejects(cut.session.ready, /the connection was lost/);
});

Deno.test("attached: garbage ends the session, whatever it is", async () => {
  const garbage: (Uint8Array | string)[] = [
    ...[
      "",
      "{",
      "null",
      '{"error":{"code":7}}',
      `{"error":{"code":"x","detail":"${"x".repeat(70_000)}"}}`,
    ],
    new Uint8Array(64).fill(255),
  ];
  for (const one of garbage) {
    const { session, socket, open } = end("server", { hello: readHello(writeHello([]))! });
    open();
    session.receive(one);
    assert.ok(await session.closed instanceof SvcError);
    assert.equal(socket.closed?.code, 4000);
    const { length } = socket.sent;
    session.receive(one);
    assert.equal(socket.sent.length, length, "what comes now is nobody's");
  }
});

Deno.test("attached: of 10,000 streams the most are reset, and the session goes on", async () => {
  const kept = keeping("ingress");
  const { caller, server } = pair({ server: { takes: kept.takes, maxStreams: 16 } });
  await caller.session.ready;
  const streams = Array.from({ length: 10_000 }, () => caller.session.open("ingress"));
  for (const stream of streams) await stream.write(bytes("GET"));
  await until(() => kept.streams.length === 16);
  await assert.rejects(streams[9_999].read(), /reset/);
  await kept.streams[0].write(bytes("still here"));
  assert.equal(text(await streams[0].read()), "still here");
  assert.equal(kept.streams.length, 16);
  server.session[Symbol.dispose]();
});

Deno.test("attached: a reader that does not read stops the writer, and nothing piles up", async () => {
  const kept = keeping("ingress");
  const { caller } = pair({ server: { takes: kept.takes } });
  await caller.session.ready;
  const stream = caller.session.open("ingress");
  let written = 0;
  const writing = (async () => {
    for (; written < 4 << 20; written += 10_000) await stream.write(new Uint8Array(10_000));
    await stream.closeWrite();
  })();
  for (let before = -1; before !== written;) {
    before = written;
    for (let turns = 0; turns < 50; turns++) await turn();
  }
  // The window, and the message that the first line came in.
  assert.ok(written <= (256 << 10) + 10_000, `${written} bytes were sent`);
  assert.equal((await readAll(kept.streams[0])).length, written = Math.ceil((4 << 20) / 1e4) * 1e4);
  await writing;
});

Deno.test("attached: many small messages wait for the socket that takes none", async () => {
  const kept = keeping("ingress");
  const { caller } = pair({ server: { takes: kept.takes } });
  await caller.session.ready;
  const stream = caller.session.open("ingress");
  caller.socket.bufferedAmount = 1;
  let written = 0;
  const writing = (async () => {
    for (; written < 5000; written++) await stream.write(new Uint8Array(1));
  })();
  for (let turns = 0; turns < 5000; turns++) await turn();
  assert.ok(written <= 1100, `${written} were sent`);
  caller.socket.bufferedAmount = 0;
  await writing;
});

Deno.test("attached: a side that gives no sign of life for long is gone", async () => {
  const { session, socket, open } = end("server", { hello: readHello(writeHello([]))!, beatMs: 5 });
  open();
  assert.match(String(await session.closed), /no longer answers/);
  assert.equal(socket.closed?.code, 4000);
});
